// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadagent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// Allocation is an allocation in the API.
type Allocation struct {
	ID, Name, JobID, NodeID, ClientStatus, DesiredStatus, ClientDescription string

	TaskStates map[string]struct {
		State    string
		Failed   bool
		Restarts int
		Events   []struct{ Type, DisplayMessage string }
	}
	// NetworkStatus and AllocatedResources are empty in a list.
	NetworkStatus *struct {
		InterfaceName, Address string
		DNS                    *struct{ Servers, Searches []string }
	}
	AllocatedResources struct {
		Shared struct {
			Ports []struct {
				Label, HostIP string
				Value         int
			}
		}
	}

	agent *Agent
}

// Allocations lists all of a job: none while the API does not answer.
func (a *Agent) Allocations(job string) []Allocation {
	var list []Allocation
	if err := a.API("job/"+job+"/allocations", &list); err != nil {
		return nil
	}
	for i := range list {
		list[i].agent = a
	}
	return list
}

// AwaitRunning waits until so many allocations of a job run with all their
// tasks, and returns them. None may fail.
func (a *Agent) AwaitRunning(job string, count int) []Allocation {
	a.Helper()
	var found []Allocation
	a.Await(fmt.Sprintf("%d allocations of %s run", count, job), func() bool {
		found = nil
		if !a.started(job, count) {
			return false
		}
		for _, alloc := range a.Allocations(job) {
			if alloc.ClientStatus == "failed" {
				a.Fatalf("an allocation of %s failed:\n%s", job, a.Nomad("alloc", "status", alloc.ID))
			}
			if alloc.runs() {
				found = append(found, alloc)
			}
		}
		return len(found) == count
	})
	for i := range found {
		if err := a.API("allocation/"+found[i].ID, &found[i]); err != nil {
			a.Fatal(err)
		}
	}
	return found
}

// started reports whether so many allocations of a job run with a task, or one has failed. The
// summary is small: the list of a hundred would keep the agent busy while it starts them.
func (a *Agent) started(job string, count int) bool {
	var summary struct {
		Summary map[string]struct{ Running, Failed int }
	}
	if a.API("job/"+job+"/summary", &summary) != nil {
		return false
	}
	running, failed := 0, 0
	for _, group := range summary.Summary {
		running, failed = running+group.Running, failed+group.Failed
	}
	return running >= count || failed > 0
}

// AwaitFailed waits until an allocation of a job has failed, and returns it.
func (a *Agent) AwaitFailed(job string) Allocation {
	a.Helper()
	var found Allocation
	a.Await("an allocation of "+job+" fails", func() bool {
		for _, alloc := range a.Allocations(job) {
			if alloc.ClientStatus == "failed" {
				found = alloc
				return true
			}
		}
		return false
	})
	return found
}

// runs is whether all tasks run: for Nomad, an allocation runs with the first.
func (alloc Allocation) runs() bool {
	for _, task := range alloc.TaskStates {
		if task.State != "running" {
			return false
		}
	}
	return alloc.ClientStatus == "running" && alloc.DesiredStatus == "run"
}

// Status returns allocnet's status of an allocation, as JSON.
func (alloc Allocation) Status() string {
	alloc.agent.Helper()
	return sandbox.Run(alloc.agent, alloc.agent.allocnet, "status", "--json", alloc.ID)
}

// Setup returns what allocnet has on record of an allocation.
func (alloc Allocation) Setup() *hook.Allocation {
	alloc.agent.Helper()
	var a hook.Allocation
	if err := json.Unmarshal([]byte(alloc.Status()), &a); err != nil {
		alloc.agent.Fatal(err)
	}
	return &a
}

// Inside runs a command in the allocation's network namespace.
func (alloc Allocation) Inside(words ...string) string {
	alloc.agent.Helper()
	return sandbox.Run(alloc.agent, append([]string{"nsenter", "--net=" + alloc.Setup().Netns}, words...)...)
}

// File reads a file below the allocation's directory; one that is not there yet
// is empty.
func (alloc Allocation) File(path string) string {
	alloc.agent.Helper()
	data, err := os.ReadFile(filepath.Join(alloc.agent.dir, "data/alloc", alloc.ID, path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		alloc.agent.Error(err)
	}
	return string(data)
}

// Networks returns what is attached, as "interface=network".
func Networks(a *hook.Allocation) string {
	var list []string
	for _, n := range a.Attachments {
		list = append(list, n.Interface+"="+n.Network)
	}
	return strings.Join(list, " ")
}
