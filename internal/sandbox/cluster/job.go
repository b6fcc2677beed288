// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// Job is a job whose allocations serve HTTP on one network, or run another program.
type Job struct {
	ID      string
	Network string // the CNI configuration
	Count   int
	// Networks are further networks, which the agents read from the job.
	Networks []string
	// Group is put into the group.
	Group string
	// Command is the program with its arguments, if it is not that of HTTP.
	Command []string
	// Port of the host leads to that of HTTP. 0: none does.
	Port int
}

func (j Job) command() (program, arguments string) {
	words := j.Command
	if words == nil {
		words = []string{"web", "serve", "${NOMAD_ALLOC_NAME}"}
	}
	return words[0], `"` + strings.Join(words[1:], `", "`) + `"`
}

func (j Job) port() string {
	if j.Port == 0 {
		return ""
	}
	return fmt.Sprintf("port \"http\" {\n static = %d\n to = 80\n}", j.Port)
}

func (j Job) hcl() string {
	program, arguments := j.command()
	return fmt.Sprintf(`job %q {
  group "g" {
    count = %d
    ephemeral_disk {
      size = 10
    }
    update {
      max_parallel = 0
    }
    migrate {
      max_parallel     = 3
      min_healthy_time = "1s"
    }
    restart {
      attempts = 20
      interval = "10m"
      delay    = "1s"
      mode     = "delay"
    }
    reschedule {
      delay          = "5s"
      delay_function = "constant"
      unlimited      = true
    }
    meta = {
      "allocnet.networks" = %q
    }
    %s
    network {
      mode = "cni/job-%s"
      %s
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "`+programs+`/%s"
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
    }
  }
}
`, j.ID, j.Count, strings.Join(j.Networks, ","), j.Group, j.Network, j.port(), program, arguments)
}

// Jobs are the jobs of a cluster, in Nomad's API.
type Jobs struct{ cluster *Cluster }

// Submit submits a job, without waiting for it. It is repeated until a server takes it.
func (j Jobs) Submit(job Job) error { return j.SubmitText(job.ID, job.hcl()) }

// SubmitText is Submit of a specification.
func (j Jobs) SubmitText(id, text string) error {
	return Await("a server takes "+id, func() error {
		var job any
		if err := j.cluster.API(http.MethodPost, "jobs/parse", map[string]any{"JobHCL": text}, &job); err != nil {
			return err
		}
		return j.cluster.API(http.MethodPost, "jobs", map[string]any{"Job": job}, nil)
	})
}

// Allocation is an allocation in Nomad's API.
type Allocation struct {
	ID, Name, NodeID, NodeName, ClientStatus, DesiredStatus string

	TaskStates map[string]struct {
		State  string
		Events []struct {
			Type, DisplayMessage string
			Time                 int64 // in nanoseconds
		}
	}
	// NetworkStatus is empty in a list.
	NetworkStatus *struct{ Address string }
}

// Address is that of the allocation, or not valid.
func (a Allocation) Address() netip.Addr {
	if a.NetworkStatus == nil {
		return netip.Addr{}
	}
	address, _ := netip.ParseAddr(a.NetworkStatus.Address) // not valid: reported by callers
	return address
}

// Index is the part of the allocation's name that distinguishes it in its group.
func (a Allocation) Index() string { return a.Name[strings.LastIndex(a.Name, "["):] }

// runs is whether all tasks run: for Nomad, an allocation runs with the first.
func (a Allocation) runs() bool {
	for _, task := range a.TaskStates {
		if task.State != "running" {
			return false
		}
	}
	return a.ClientStatus == "running" && a.DesiredStatus == "run" && len(a.TaskStates) > 0
}

// Allocations lists all of a job.
func (j Jobs) Allocations(job string) (list []Allocation, err error) {
	err = j.cluster.API(http.MethodGet, "job/"+job+"/allocations", nil, &list)
	return list, err
}

// AwaitRunning waits until so many allocations of a job run, and returns them with their
// addresses.
func (j Jobs) AwaitRunning(job string, count int) (found []Allocation, err error) {
	err = Await(fmt.Sprintf("%d allocations of %s run", count, job), func() (err error) {
		found, err = j.Running(job, count)
		return err
	})
	return found, err
}

// Running returns the allocations of a job that run, with their addresses. Another number of
// them than count is an error.
func (j Jobs) Running(job string, count int) ([]Allocation, error) {
	list, err := j.Allocations(job)
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(slices.Clone(list), func(a Allocation) bool { return !a.runs() })
	if len(found) != count {
		return nil, fmt.Errorf("%d run: %s", len(found), Explain(list))
	}
	for i, a := range found {
		if err := j.cluster.API(http.MethodGet, "allocation/"+a.ID, nil, &found[i]); err != nil {
			return nil, err
		}
		if !found[i].Address().IsValid() {
			return nil, errors.Join(fmt.Errorf("allocation %s of %s has no address", a.ID, a.NodeName), j.replaceUnattached(a))
		}
	}
	return found, nil
}

// replaceUnattached replaces an allocation, as an operator has to, that its client was about to
// attach when it was killed: before Nomad calls CHECK at a restart, it takes a namespace that is
// there for one that it has attached.
func (j Jobs) replaceUnattached(a Allocation) error {
	checks, err := nomadagent.BinaryHas(nomadagent.CheckOnRestart)
	if err != nil || checks || !j.wasKilled(a.NodeName) {
		return err
	}
	return j.cluster.API(http.MethodPost, "allocation/"+a.ID+"/stop", nil, nil)
}

// wasKilled reports whether the Nomad of a client was killed since the machine was booted.
func (j Jobs) wasKilled(client string) bool {
	return slices.ContainsFunc(j.cluster.Clients, func(m *Machine) bool { return m.Name == client && m.killed.Load() })
}

// Explain says how allocations are, and what Nomad says of each: all of one that has failed, else the last.
func Explain(list []Allocation) string {
	var lines []string
	for _, a := range list {
		line := fmt.Sprintf("\n%s %s on %s: %s, wanted %s", a.ID[:8], a.Name, a.NodeName, a.ClientStatus, a.DesiredStatus)
		for name, task := range a.TaskStates {
			events := task.Events
			if a.ClientStatus != "failed" && len(events) > 1 {
				events = events[len(events)-1:]
			}
			for _, event := range events {
				line += ", " + name + ": " + event.DisplayMessage
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

// Stop stops jobs, and waits until nothing of them has a network. It never purges: servers
// of 1.11.3 panic when a job without allocations is purged while it is scheduled.
func (j Jobs) Stop(jobs ...string) error {
	for _, id := range jobs {
		if err := j.Deregister(id); err != nil {
			return err
		}
	}
	return Await("the allocations end", func() error {
		return errors.Join(j.stopAgain(jobs), j.RequireEnded(jobs...))
	})
}

// stopAgain stops those of the jobs that run again: a server that was stopped registers the job
// of a request that its client has repeated elsewhere when it goes on.
func (j Jobs) stopAgain(jobs []string) error {
	var all []struct {
		ID   string
		Stop bool
	}
	if err := j.cluster.API(http.MethodGet, "jobs", nil, &all); err != nil {
		return err
	}
	for _, job := range all {
		if job.Stop || !slices.Contains(jobs, job.ID) {
			continue
		}
		if err := j.cluster.API(http.MethodDelete, "job/"+job.ID, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// Deregister stops a job, without waiting for its allocations.
func (j Jobs) Deregister(job string) error {
	return Await(job+" is stopped", func() error { return j.cluster.API(http.MethodDelete, "job/"+job, nil, nil) })
}

// RequireEnded is an error unless all allocations of jobs have ended.
func (j Jobs) RequireEnded(jobs ...string) error {
	for _, id := range jobs {
		list, err := j.Allocations(id)
		if err != nil {
			return err
		}
		for _, a := range list {
			if a.ClientStatus == "running" || a.ClientStatus == "pending" {
				return fmt.Errorf("not ended: %s", Explain(list))
			}
		}
	}
	return nil
}
