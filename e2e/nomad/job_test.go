// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/lab"
)

// allocation is what the API tells of one.
type allocation struct {
	ID, JobID, ClientStatus, DesiredStatus string
	NetworkStatus                          *struct{ InterfaceName, Address string }
	AllocatedResources                     struct {
		Shared struct {
			Ports []struct {
				Label string
				Value int
			}
		}
	}
	TaskStates map[string]struct {
		Restarts int
		Events   []struct{ Type, DisplayMessage string }
	}
}

// group is what differs between the jobs of the tests.
type group struct {
	count int
	// networks are network blocks besides the first, and args the CNI arguments
	// of that.
	args, networks string
	port           string
	driver         string
	// serve replaces the arguments of the task's program; task is put into the
	// task, and job into the job.
	serve, task, job string
}

// hcl returns the job, whose task answers with its name.
func (g group) hcl(id string) string {
	if g.driver == "" {
		g.driver = "raw_exec"
	}
	command := web
	if g.driver == "exec" {
		command = "/bin/web"
	}
	if g.serve == "" {
		g.serve = fmt.Sprintf(`"serve", "%s ${NOMAD_ALLOC_INDEX}"`, id)
	}
	return fmt.Sprintf(`job %q {
  type = "service"
  %s
  group "g" {
    count = %d
    ephemeral_disk {
      size = 10
    }
    update {
      max_parallel = 0
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    restart {
      attempts = 2
      delay    = "1s"
      mode     = "fail"
    }
    network {
      mode = "cni/multi"
      %s
      cni {
        args = {
          %s
        }
      }
    }
    %s
    task "t" {
      driver = %q
      config {
        command = %q
        args    = [%s]
      }
      resources {
        cpu    = 20
        memory = 20
      }
      logs {
        disabled      = true
        max_files     = 1
        max_file_size = 1
      }
      kill_timeout = "1s"
      %s
    }
  }
}
`, id, g.job, max(1, g.count), g.port, g.args, g.networks, g.driver, command, g.serve, g.task)
}

const publish = "port \"http\" {\n to = 80\n }"

// submit hands a job in, without waiting for it.
func (a *agent) submit(id string, g group) {
	a.Helper()
	path := filepath.Join(dir, id+".nomad.hcl")
	lab.WriteFile(a, path, g.hcl(id))
	a.Nomad("job", "run", "-detach", path)
}

// run submits a job and returns its allocations when they run.
func (a *agent) run(id string, g group) []allocation {
	a.Helper()
	a.submit(id, g)
	return a.running(id, max(1, g.count))
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
			if alloc.ClientStatus == "running" && alloc.DesiredStatus == "run" {
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

// allocations lists all of a job, without what only a closer look shows: their
// resources and network status.
func (a *agent) allocations(id string) []allocation {
	var list []allocation
	if err := a.API("job/"+id+"/allocations", &list); err != nil {
		return nil
	}
	return list
}

// stop stops and purges a job, and waits until its networks are gone.
func (a *agent) stop(ids ...string) {
	a.Helper()
	for _, id := range ids {
		a.Nomad("job", "stop", "-purge", "-detach", id)
	}
	a.quiet()
}

// quiet waits until no allocation has a namespace.
func (a *agent) quiet() {
	a.Helper()
	a.Await("the namespaces are gone", func() bool {
		left, err := os.ReadDir("/run/netns")
		return err == nil && len(left) == 0
	})
}

// port returns the host's port with the label.
func (alloc allocation) port(label string) int {
	for _, p := range alloc.AllocatedResources.Shared.Ports {
		if p.Label == label {
			return p.Value
		}
	}
	return 0
}

// status returns what allocnet says of an allocation.
func (alloc allocation) status(t testing.TB) string {
	t.Helper()
	return lab.Run(t, allocnet, "status", "--json", alloc.ID)
}

// setup returns what allocnet has on record of an allocation.
func (alloc allocation) setup(t testing.TB) *hook.Allocation {
	t.Helper()
	var a hook.Allocation
	if err := json.Unmarshal([]byte(alloc.status(t)), &a); err != nil {
		t.Fatal(err)
	}
	return &a
}

// inside runs a command in the allocation's network namespace.
func (alloc allocation) inside(t testing.TB, words ...string) string {
	t.Helper()
	return lab.Run(t, append([]string{"ip", "netns", "exec", alloc.ID}, words...)...)
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

// address returns the first address of an interface.
func address(t testing.TB, a *hook.Allocation, iface string) string {
	t.Helper()
	for _, n := range a.Attachments {
		if n.Interface == iface && len(n.Addresses) > 0 {
			return n.Addresses[0].Addr().String()
		}
	}
	t.Errorf("%s of %s has no address", iface, a.ID)
	return ""
}
