// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strings"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// testAgentRestarts restarts the client agent while allocations run.
func testAgentRestarts(a *agent) {
	alloc := a.run("kept", group{port: publish, selects: extra})[0]
	attached := alloc.Status()
	url := fmt.Sprintf("http://127.0.0.1:%d", port(alloc, "http"))
	task := taskOf(a, alloc)
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		a.Signal(signal)
		if got := sandbox.Run(a, web, "get", url); !strings.HasPrefix(got, "kept 0") {
			a.Errorf("without the agent %s answers %q", url, got)
		}
		a.restart("after signal " + signal.String())
		if again := a.AwaitRunning("kept", 1)[0]; again.ID != alloc.ID || taskOf(a, again) != task {
			a.Errorf("after signal %s another task runs: %s, was %s", signal, taskOf(a, again), task)
		}
		if diff := cmp.Diff(attached, alloc.Status()); diff != "" {
			a.Errorf("after signal %s: %s", signal, diff)
		}
	}
	a.Stop("kept")
}

// restart starts the agent, and waits until it has restored its allocation: CHECK has
// passed, if this version calls it.
func (a *agent) restart(reason string) {
	a.Helper()
	words := "passed check: skipping setup"
	if !a.checks {
		words = "finished pre-run hooks"
	}
	before := a.logged(words)
	a.Start()
	a.Await(words+": "+reason, func() bool { return a.logged(words) > before })
}

// testCheck: a client that restarts sets up a damaged network again, and only that.
func testCheck(a *agent) {
	if a.checks {
		testCheckPasses(a)
	} else {
		testNoCheck(a)
	}
}

// testNoCheck: with this version of Nomad, or of the CNI plugins, no restart of the client
// repairs a network. allocnet check
// names the damage, and stopping the allocation replaces it.
func testNoCheck(a *agent) {
	alloc := a.run("checked", group{port: publish, selects: extra})[0]
	a.Signal(unix.SIGTERM)
	sandbox.Run(a, "ip", "-n", alloc.ID, "link", "delete", "net1")
	a.restart("the network is damaged")
	if got := a.logged("passed check"); got > 0 {
		a.Errorf("CHECK passed %d times", got)
	}
	if out, err := exec.Command(allocnet, "check", alloc.ID).CombinedOutput(); err == nil || !strings.Contains(string(out), "net1") {
		a.Errorf("allocnet check after the restart: %v\n%s", err, out)
	}
	a.Nomad("alloc", "stop", "-detach", alloc.ID)
	a.Await("another allocation replaces it", func() bool {
		for _, next := range a.Allocations("checked") {
			if next.ID != alloc.ID && next.ClientStatus == "running" {
				return nomadagent.Networks(next.Setup()) == "eth0=web net1=storage net2=mgmt"
			}
		}
		return false
	})
	a.Stop("checked")
}

// testCheckPasses restarts the client without things that CHECK must not need: the
// agent, a valid plugin configuration, attachments of other callers. Only a damaged
// network is set up again.
func testCheckPasses(a *agent) {
	alloc := a.run("checked", group{port: publish, selects: extra})[0]
	before, task := alloc.Setup(), taskOf(a, alloc)
	conflist := confDir + "/00-multi.conflist"
	sound := read(a, conflist)
	agentless := regexp.MustCompile(`,\s*"agent": \{[^}]*\}`).ReplaceAllString(sound, "")
	with := func(keys string) {
		sandbox.WriteFile(a, conflist, strings.Replace(agentless, `"type": "allocnet-cni",`, `"type": "allocnet-cni", `+keys+`,`, 1))
	}
	for _, test := range []struct {
		name    string
		prepare func()
	}{
		{"the agent is required and stopped", func() { with(`"agent": {"socket": "/run/no-agent.sock", "mode": "require"}`) }},
		{"the configuration has a wrong key", func() { with(`"no-such-key": true, "logLevel": "shout"`) }},
		{"another attachment was interrupted", func() { a.interruptExtend(alloc.ID) }},
	} {
		a.Signal(unix.SIGTERM) // Nomad writes its own state a little after the task runs
		test.prepare()
		a.restart(test.name)
		if again := a.AwaitRunning("checked", 1)[0]; again.ID != alloc.ID || taskOf(a, again) != task {
			a.Errorf("%s: another task runs: %s, was %s", test.name, taskOf(a, again), task)
		}
		sandbox.WriteFile(a, conflist, sound)
	}
	a.Signal(unix.SIGTERM)
	sandbox.Run(a, "ip", "-n", alloc.ID, "link", "delete", "net1")
	a.Start()
	// allocnet check would have the lock, and while another process has it CHECK passes.
	a.Await("the damaged allocation is set up anew", func() bool {
		var now hook.Allocation
		out, err := exec.Command(allocnet, "status", "--json", alloc.ID).Output()
		return err == nil && json.Unmarshal(out, &now) == nil && !now.Created.Equal(before.Created)
	})
	if out := sandbox.Run(a, allocnet, "check", alloc.ID); !strings.Contains(out, "net1") {
		a.Errorf("allocnet check of the repaired network:\n%s", out)
	}
	a.Stop("checked")
}

// interruptExtend leaves an attachment in the state that a killed driver leaves.
func (a *agent) interruptExtend(id string) {
	a.Helper()
	sandbox.Run(a, allocnet, "attach", id, "--networks", "backup@data0", "--conf-dir", confDir, "--plugin-dir", sandbox.PluginDir())
	sandbox.Interrupt(a, id, "data0")
}

// taskOf returns the processes in the allocation's namespace.
func taskOf(a *agent, alloc nomadagent.Allocation) string {
	a.Helper()
	return strings.TrimSpace(sandbox.Run(a, "ip", "netns", "pids", alloc.ID))
}

// logged counts the lines of the agent's log that have the text.
func (a *agent) logged(words string) int {
	a.Helper()
	return strings.Count(read(a, a.LogPath()), words)
}

// testNamespaceGone deletes a namespace while Nomad's allocation runs.
func testNamespaceGone(a *agent) {
	alloc := a.run("gone", group{port: publish, selects: extra})[0]
	sandbox.Run(a, "ip", "netns", "delete", alloc.ID)
	a.Nomad("job", "stop", "-purge", "-detach", "gone")
	a.Await("allocnet has no record", func() bool {
		return exec.Command(allocnet, "status", alloc.ID).Run() != nil
	})
	a.Quiet()
}

// testReboot removes what a reboot removes, and keeps the files on disk.
func testReboot(a *agent) {
	job := group{count: 2, port: publish, task: reading, selects: `"storage,vlan,backup"`}
	before := map[string]string{}
	for _, alloc := range a.run("reborn", job) {
		before[alloc.ID] = nomadagent.Networks(alloc.Setup())
	}
	a.reboot()
	a.Start()
	a.Await("the allocations are set up anew", func() bool {
		for id := range before {
			if exec.Command(allocnet, "check", id).Run() != nil {
				return false
			}
		}
		return true
	})
	for _, alloc := range a.AwaitRunning("reborn", 2) {
		url := fmt.Sprintf("http://127.0.0.1:%d", port(alloc, "http"))
		a.Await(url+" answers", func() bool {
			out, _ := exec.Command(web, "get", url).Output()
			return strings.HasPrefix(string(out), "reborn ")
		})
		attached := alloc.Setup()
		if got := nomadagent.Networks(attached); got != before[alloc.ID] {
			a.Errorf("%s has %s, had %q", alloc.ID, got, before[alloc.ID])
		}
		requireStatusFile(a, alloc, attached)
	}
	leases := sandbox.Run(a, "find", "/var/lib/cni/networks", "-name", "[0-9]*.*")
	if got := strings.Count(leases, "\n"); got != 8 {
		a.Errorf("%d leases, want 8: two allocations with four addresses each\n%s", got, leases)
	}
	a.Stop("reborn")
	a.warm() // creates the bridges that no allocation of the test has created
}

// reboot ends all processes, removes namespaces, links and rules, and changes the
// boot ID.
func (a *agent) reboot() {
	a.Helper()
	a.Signal(unix.SIGKILL)
	if a.daemon != nil {
		a.daemon.end(unix.SIGKILL)
	}
	nomadagent.KillTasks()
	a.Await("the tasks are gone", func() bool { return len(nomadagent.Tasks()) == 0 })
	sandbox.Reboot(a)
	if a.daemon != nil {
		a.daemon.launch()
	}
}
