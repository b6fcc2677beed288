// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"os/exec"
	"strings"
	"time"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// testAnswers: what the driver answers arrives in Nomad's API, field by field.
func testAnswers(a *agent) {
	alloc := a.run("answers", storage())[0]
	requireHealth(a)
	attachment := alloc.Setup().Attachments[0]
	event := awaitEvent(a, alloc, "Attached storage")
	if event.Details["network"] != "storage" || event.Details["interface"] != attachment.Interface ||
		!strings.HasSuffix(event.DisplayMessage, attachment.Addresses[0].String()) || !recent(event.Time) {
		a.Errorf("the event of the attachment is %+v", event)
	}
	for _, refused := range []struct{ command, words string }{
		{"signal -task net -s SIGUSR1 " + alloc.ID, "an attachment has no process to signal"},
		{"exec -task net -t=false -i=false " + alloc.ID + " true", "an attachment has no process to execute in"},
	} {
		out, err := exec.Command(nomadagent.Binary(), append([]string{"alloc"}, strings.Fields(refused.command)...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), refused.words) {
			a.Errorf("nomad alloc %s: %v, %s, want %q", refused.command, err, out, refused.words)
		}
	}
	requireStats(a, alloc)

	alloc.Inside("ip", "link", "delete", attachment.Interface)
	const gone = "interface net1 of network storage is gone"
	if event := awaitEvent(a, alloc, "Exit Code: 1"); event.Details["exit_code"] != "1" || event.Details["exit_message"] != gone {
		a.Errorf("the event of the failure is %+v", event)
	}
	a.Stop("answers")

	refused := storage()
	refused.networks["net"] = "network \"unknown\" {}"
	a.Submit("refused", refused.hcl("refused"))
	if now := a.AwaitFailed("refused"); now.TaskStates["net"].Restarts != 0 {
		a.Errorf("Nomad has restarted a task that the driver refuses, %d times", now.TaskStates["net"].Restarts)
	}
	a.Stop("refused")
}

// taskEvent is an event of a task in Nomad's API.
type taskEvent struct {
	Time           int64
	DisplayMessage string
	Details        map[string]string
}

// awaitEvent waits for an event of the attachment task, whose message has the words.
func awaitEvent(a *agent, alloc nomadagent.Allocation, words string) taskEvent {
	a.Helper()
	var found taskEvent
	a.Await("the event "+words, func() bool {
		var now struct {
			TaskStates map[string]struct{ Events []taskEvent }
		}
		_ = a.API("allocation/"+alloc.ID, &now) // asked again
		for _, event := range now.TaskStates["net"].Events {
			if found = event; strings.Contains(event.DisplayMessage, words) {
				return true
			}
		}
		return false
	})
	return found
}

// recent reports whether a time in nanoseconds is one of this test's run.
func recent(nanoseconds int64) bool {
	age := time.Since(time.Unix(0, nanoseconds))
	return age > 0 && age < 24*time.Hour
}

// requireHealth holds the node to the driver's fingerprint.
func requireHealth(a *agent) {
	a.Helper()
	for _, n := range a.nodes() {
		if driver := n.Drivers["allocnet"]; !driver.Healthy || driver.HealthDescription != "Healthy" || n.Attributes["driver.allocnet"] != "1" {
			a.Errorf("node %s has the driver %+v, attributes %v", n.Name, driver, n.Attributes)
		}
	}
}

// requireStats: Nomad has the resource usage of the attachment task.
func requireStats(a *agent, alloc nomadagent.Allocation) {
	a.Helper()
	var stats struct {
		Tasks map[string]struct {
			Timestamp     int64
			ResourceUsage *struct{ MemoryStats, CpuStats *struct{ Measured []string } }
		}
	}
	sandbox.Eventually(a, "Nomad has the resource usage of the attachment task", func() bool {
		err := a.API("client/allocation/"+alloc.ID+"/stats", &stats)
		return err == nil && stats.Tasks["net"].ResourceUsage != nil
	})
	usage := stats.Tasks["net"]
	if !recent(usage.Timestamp) || usage.ResourceUsage.MemoryStats == nil || usage.ResourceUsage.CpuStats == nil {
		a.Errorf("the resource usage is %+v", usage)
	}
}
