// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/lab"
	"github.com/allocnet/allocnet/internal/netns"
)

// allocation is what the API tells of one.
type allocation struct {
	ID, JobID, NodeID, ClientStatus, DesiredStatus, ClientDescription string
	TaskStates                                                        map[string]struct {
		State    string
		Failed   bool
		Restarts int
		Events   []struct{ Type, DisplayMessage string }
	}
}

// job is what differs between the jobs of the tests.
type job struct {
	count  int
	mode   string // of the group's network
	driver string // of the main task
	// networks are the config of each attachment task, by the task's name.
	networks map[string]string
	// services are put into the attachment tasks, more into the group, template
	// into the main task.
	services, more, template string
	// script is what the main task does; it has an ip command.
	script string
}

const attachment = `
    task %q {
      driver = "allocnet"
      lifecycle {
        hook    = "prestart"
        sidecar = true
      }
      config {
        %s
      }
      %s
      resources {
        cpu    = 10
        memory = 10
      }
    }
`

func (j job) hcl(id string) string {
	tasks := ""
	for name, config := range j.networks {
		tasks += fmt.Sprintf(attachment, name, config, j.services)
	}
	return fmt.Sprintf(`job %q {
  type = "service"
  group "g" {
    count = %d
    %s
    reschedule {
      attempts  = 0
      unlimited = false
    }
    restart {
      attempts = 9
      interval = "10m"
      delay    = "1s"
      mode     = "fail"
    }
    network {
      mode = %q
    }
    %s
    task "main" {
      driver = %q
      config {
        %s
      }
      %s
      resources {
        cpu    = 10
        memory = 20
      }
      kill_timeout = "1s"
    }
  }
}
`, id, max(1, j.count), j.more, j.mode, tasks, j.driver, j.command(), j.template)
}

// command is the main task's config.
func (j job) command() string {
	words := fmt.Sprintf("command = %q\n args = [\"sh\", \"-c\", %q]", busybox, j.script)
	if j.driver == "docker" {
		return "image = \"busybox:1\"\n" + strings.Replace(words, busybox, "/bin/busybox", 1)
	}
	return words
}

// submit hands a job in, without waiting for it.
func (a *agent) submit(id string, j job) {
	a.Helper()
	path := filepath.Join(dir, id+".nomad.hcl")
	lab.WriteFile(a, path, j.hcl(id))
	a.Nomad("job", "run", "-detach", path)
}

// run submits a job and returns its allocations when they run.
func (a *agent) run(id string, j job) []allocation {
	a.Helper()
	a.submit(id, j)
	return a.running(id, max(1, j.count))
}

// running waits until so many allocations of a job run.
func (a *agent) running(id string, count int) []allocation {
	a.Helper()
	var found []allocation
	a.Await(fmt.Sprintf("%d allocations of %s run", count, id), func() bool {
		found = nil
		for _, alloc := range a.allocations(id) {
			if alloc.ClientStatus == "failed" {
				a.Fatalf("an allocation of %s failed:\n%s", id, a.Nomad("alloc", "status", alloc.ID))
			}
			if alloc.ClientStatus == "running" && alloc.DesiredStatus == "run" && alloc.TaskStates["main"].State == "running" {
				found = append(found, alloc)
			}
		}
		return len(found) == count
	})
	return found
}

// allocations returns all of a job.
func (a *agent) allocations(id string) []allocation {
	a.Helper()
	var stubs []struct{ ID string }
	if a.API("job/"+id+"/allocations", &stubs) != nil {
		return nil
	}
	found := make([]allocation, len(stubs))
	for i, stub := range stubs {
		if a.API("allocation/"+stub.ID, &found[i]) != nil {
			return nil
		}
	}
	return found
}

// stop stops and purges jobs, and waits until their namespaces are gone.
func (a *agent) stop(ids ...string) {
	a.Helper()
	for _, id := range ids {
		a.Nomad("job", "stop", "-purge", "-detach", id)
	}
	a.Await("the namespaces are gone", func() bool {
		for _, pattern := range []string{"/run/netns/*", "/run/docker/netns/*"} {
			left, _ := filepath.Glob(pattern)
			for _, path := range left { // Docker leaves empty files for a while
				if ns, err := netns.Open(path); err == nil {
					_ = ns.Close() // only looked at
					return false
				}
			}
		}
		return true
	})
}

// events returns the messages of a task's events, a line each.
func (alloc allocation) events(task string) string {
	var lines []string
	for _, event := range alloc.TaskStates[task].Events {
		lines = append(lines, event.Type+": "+event.DisplayMessage)
	}
	return strings.Join(lines, "\n")
}

// setup returns what allocnet has on record of an allocation.
func (alloc allocation) setup(t testing.TB) *hook.Allocation {
	t.Helper()
	out, err := exec.Command(allocnet, "status", "--json", alloc.ID).CombinedOutput()
	var a hook.Allocation
	if err == nil {
		err = json.Unmarshal(out, &a)
	}
	if err != nil {
		t.Fatalf("status of %s: %v\n%s", alloc.ID, err, out)
	}
	return &a
}

// inside runs a command in the allocation's network namespace.
func (alloc allocation) inside(t testing.TB, words ...string) string {
	t.Helper()
	return lab.Run(t, append([]string{"nsenter", "--net=" + alloc.setup(t).Netns}, words...)...)
}

// file reads a file below the allocation's directory.
func (alloc allocation) file(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dataDir, "alloc", alloc.ID, path))
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

// networks returns what is attached, as "interface=network".
func networks(a *hook.Allocation) string {
	var list []string
	for _, n := range a.Attachments {
		list = append(list, n.Interface+"="+n.Network)
	}
	return strings.Join(list, " ")
}
