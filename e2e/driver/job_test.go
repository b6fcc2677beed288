// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"strings"

	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// job has the parts in which the jobs of the tests differ.
type job struct {
	count  int
	mode   string // of the group's network
	ports  string // of the group's network
	driver string // of the main task
	// networks are the config of each attachment task, by the task's name.
	networks map[string]string
	// services are put into the attachment tasks, more into the group, template
	// into the main task.
	services, more, template string
	// script is the shell script of the main task. It can use ip.
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
      %s
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
`, id, max(1, j.count), j.more, j.mode, j.ports, tasks, j.driver, j.command(), j.template)
}

// command is the main task's config.
func (j job) command() string {
	words := fmt.Sprintf("command = %q\n args = [\"sh\", \"-c\", %q]", busybox, j.script)
	if j.driver == "docker" {
		return "image = \"busybox:1\"\n" + strings.Replace(words, busybox, "/bin/busybox", 1)
	}
	return words
}

// run submits a job and returns its allocations when they run.
func (a *agent) run(id string, j job) []nomadagent.Allocation {
	a.Helper()
	a.Submit(id, j.hcl(id))
	return a.AwaitRunning(id, max(1, j.count))
}

// events returns the messages of a task's events, one on each line.
func events(alloc nomadagent.Allocation, task string) string {
	var lines []string
	for _, event := range alloc.TaskStates[task].Events {
		lines = append(lines, event.Type+": "+event.DisplayMessage)
	}
	return strings.Join(lines, "\n")
}
