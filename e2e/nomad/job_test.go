// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"fmt"
	"testing"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// group has the parts in which the jobs of the tests differ.
type group struct {
	count int
	// selects is the selection of networks, as an expression: of meta, or with arguments as
	// the CNI argument "networks".
	selects string
	// arguments has the job select by CNI arguments. args are further ones.
	arguments bool
	args      string
	// networks are the network blocks after the first.
	networks string
	port     string
	driver   string
	// serve replaces the arguments of the task's program; task is put into the
	// task, and job into the job.
	serve, task, job string
}

// hcl returns the job. Its task answers with the name of the job.
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
      delay    = "100ms"
      mode     = "fail"
    }
    %s
    network {
      mode = "cni/multi"
      %s
      %s
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
`, id, g.job, max(1, g.count), g.meta(), g.port, g.block(), g.networks, g.driver, command, g.serve, g.task)
}

// meta returns the group's meta, which selects networks.
func (g group) meta() string {
	if g.selects == "" || g.arguments {
		return ""
	}
	return "meta = {\n \"allocnet.networks\" = " + g.selects + "\n }"
}

// block returns the block of the CNI arguments. A Nomad that does not know it accepts
// a job without it.
func (g group) block() string {
	args := g.args
	if g.arguments && g.selects != "" {
		args += "\nnetworks = " + g.selects
	}
	if args == "" {
		return ""
	}
	return "cni {\n args = {\n " + args + "\n }\n }"
}

const publish = "port \"http\" {\n to = 80\n }"

// run submits a job and returns its allocations when they run.
func (a *agent) run(id string, g group) []nomadagent.Allocation {
	a.Helper()
	a.submit(id, g)
	return a.AwaitRunning(id, max(1, g.count))
}

// submit submits a job in the form of the agent's jobs, without waiting for it.
func (a *agent) submit(id string, g group) {
	a.Helper()
	g.arguments = a.arguments
	a.Submit(id, g.hcl(id))
}

// port returns the host port with the label.
func port(alloc nomadagent.Allocation, label string) int {
	for _, p := range alloc.AllocatedResources.Shared.Ports {
		if p.Label == label {
			return p.Value
		}
	}
	return 0
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
