// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

const idle = "exec " + busybox + " sleep 1000000"

// storage is a job with one network and an idle main task.
func storage() job {
	return job{mode: "bridge", driver: "raw_exec", script: idle, networks: map[string]string{"net": `network "storage" {}`}}
}

// testFiles: the allocation's shared directory has the networks as a list, and as
// variables that a template adds to the main task.
func testFiles(a *agent) {
	j := storage()
	j.networks["other"] = `network "mgmt" {
		interface = "mgmt0"
	}`
	j.template = `template {
        source      = "${NOMAD_ALLOC_DIR}/network.env"
        destination = "local/network.env"
        env         = true
      }`
	j.script = busybox + ` env > ${NOMAD_ALLOC_DIR}/env.new; ` + busybox + ` mv ${NOMAD_ALLOC_DIR}/env.new ${NOMAD_ALLOC_DIR}/env; ` + idle
	alloc := a.run("files", j)[0]
	got := ""
	a.Await("the main task has written its environment", func() bool {
		got = alloc.File("alloc/env")
		return strings.Contains(got, "NOMAD_ALLOC_ID")
	})
	for _, n := range alloc.Setup().Attachments {
		address := n.Addresses[0]
		for _, line := range []string{
			fmt.Sprintf("ALLOCNET_INTERFACE_%s=%s\n", n.Network, n.Interface), fmt.Sprintf("ALLOCNET_IP_%s=%s\n", n.Network, address.Addr()),
			fmt.Sprintf("ALLOCNET_CIDRS_%s=%s\n", n.Network, address), fmt.Sprintf("ALLOCNET_MTU_%s=1400\n", n.Network),
		} {
			if !strings.Contains(got, line) {
				a.Errorf("the environment lacks %q:\n%s", line, got)
			}
		}
		if status := alloc.File("alloc/network-status.json"); !strings.Contains(status, address.Addr().String()) {
			a.Errorf("network-status.json lacks %s:\n%s", address, status)
		}
	}
	a.Stop("files")
}

// testNames: allocations find each other by name where no network of the CNI plugin says where their directories are.
func testNames(a *agent) {
	sandbox.WriteFile(a, dir+"/allocnet.hcl", fmt.Sprintf("conf_dir = %q\nplugin_dirs = [%q]\nnomad {\n events = true\n}\n", confDir, sandbox.PluginDir()))
	cmd := exec.Command(allocnet, "agent", "--config", dir+"/allocnet.hcl")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		a.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(unix.SIGTERM)
		_ = cmd.Wait() // signalled
		if a.Failed() {
			a.Logf("allocnet agent:\n%s", log.String())
		}
	}()
	j := storage()
	j.count = 2
	all := a.run("names", j)
	want := "127.0.0.1 localhost\n::1 localhost\n"
	slices.SortFunc(all, func(a, b nomadagent.Allocation) int { return strings.Compare(a.Name, b.Name) })
	for i, alloc := range all {
		want += fmt.Sprintf("%s names-%d.storage\n", alloc.Setup().Attachments[0].Addresses[0].Addr(), i)
	}
	for _, alloc := range all {
		path := filepath.Join(dataDir, "alloc", alloc.ID, "alloc/network.hosts")
		a.Await(path+" has both", func() bool { data, _ := os.ReadFile(path); return string(data) == want }) // or there is none yet
	}
	a.Stop("names")
}

// testLiveAttach attaches a network to a running allocation and detaches it. No task
// restarts.
func testLiveAttach(a *agent) {
	alloc := a.run("live", storage())[0]
	sandbox.Run(a, allocnet, "attach", alloc.ID, "--networks", "mgmt@mgmt0", "--conf-dir", confDir, "--plugin-dir", sandbox.PluginDir())
	if got := nomadagent.Networks(alloc.Setup()); got != "net1=storage mgmt0=mgmt" {
		a.Errorf("attached %s", got)
	}
	if out := alloc.Inside("ip", "-br", "link"); !strings.Contains(out, "mgmt0") {
		a.Errorf("the namespace has\n%s", out)
	}
	sandbox.Run(a, allocnet, "detach", alloc.ID, "--interface", "mgmt0", "--plugin-dir", sandbox.PluginDir())
	if out := alloc.Inside("ip", "-br", "link"); strings.Contains(out, "mgmt0") || !strings.Contains(out, "net1") {
		a.Errorf("after detach the namespace has\n%s", out)
	}
	sandbox.Run(a, allocnet, "attach", alloc.ID, "--networks", "mgmt@mgmt0", "--conf-dir", confDir, "--plugin-dir", sandbox.PluginDir())
	requireUntouched(a, alloc, 0)
	a.Stop("live")
	// A manual attachment belongs to no task: detach or gc remove it.
	sandbox.Run(a, allocnet, "detach", alloc.ID, "--plugin-dir", sandbox.PluginDir())
}

// requireUntouched: the main task was not restarted, and the attachment task was
// restarted as often as given.
func requireUntouched(a *agent, alloc nomadagent.Allocation, restarts int) {
	a.Helper()
	for _, now := range a.Allocations(alloc.JobID) {
		if now.ID != alloc.ID || now.ClientStatus != "running" || now.TaskStates["main"].Restarts != 0 || now.TaskStates["net"].Restarts != restarts {
			a.Errorf("allocation %s of %s is %s, its tasks were restarted: %+v", now.ID, alloc.JobID, now.ClientStatus, now.TaskStates)
		}
	}
}

// requireRepair deletes the interface. The task fails with the reason, and Nomad's
// restart attaches it again. The main task keeps running.
func requireRepair(a *agent, alloc nomadagent.Allocation, restarts int) {
	a.Helper()
	before := alloc.Setup().Attachments[0]
	alloc.Inside("ip", "link", "delete", "net1")
	var now nomadagent.Allocation
	a.Await("the attachment task was restarted", func() bool {
		all := a.Allocations(alloc.JobID)
		if len(all) == 0 { // no answer of the API
			return false
		}
		now = all[0]
		return now.TaskStates["net"].Restarts == restarts && now.TaskStates["net"].State == "running"
	})
	if text := events(now, "net"); !strings.Contains(text, "interface net1 of network storage is gone") {
		a.Errorf("the events do not say why:\n%s", text)
	}
	after := alloc.Setup().Attachments
	if len(after) != 1 || after[0].MAC == before.MAC {
		a.Errorf("attached are %+v, before %+v", after, before)
	}
	if out := alloc.Inside("ip", "-br", "addr", "show", "net1"); !strings.Contains(out, after[0].Addresses[0].String()) {
		a.Errorf("the namespace has\n%s", out)
	}
	requireUntouched(a, alloc, restarts)
}

func testInterfaceDeleted(a *agent) {
	requireRepair(a, a.run("deleted", storage())[0], 1)
	a.Stop("deleted")
}

// testKilled kills the plugin, stops and kills the client, and both. Each time the
// allocation keeps its networks, the driver watches them again, and a stop leaves
// nothing.
//
// The stop comes first: Nomad then saves the allocation's network status, which it
// otherwise does once a minute. Without it Nomad fails the allocation.
func testKilled(a *agent) {
	alloc := a.run("killed", storage())[0]
	for i, step := range []struct {
		name string
		kill func()
	}{
		{"the plugin was killed", a.killPlugin},
		{"the client was restarted", func() { a.Signal(unix.SIGINT); a.Start() }},
		{"the client was killed", func() { a.Signal(unix.SIGKILL); a.Start() }},
		{"both were killed", func() {
			a.Signal(unix.SIGKILL)
			for _, pid := range pluginProcesses() {
				_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
			}
			a.Start()
		}},
	} {
		before := alloc.Setup().Attachments[0]
		step.kill()
		a.AwaitRunning("killed", 1)
		after := alloc.Setup().Attachments
		if len(after) != 1 || after[0].MAC != before.MAC || after[0].Addresses[0] != before.Addresses[0] {
			a.Errorf("%s: attached are %+v, before %+v", step.name, after, before)
		}
		if out := alloc.Inside("ip", "link", "show", "net1"); !strings.Contains(out, before.MAC) {
			a.Errorf("%s: the namespace has\n%s", step.name, out)
		}
		requireUntouched(a, alloc, i)
		requireRepair(a, alloc, i+1)
	}
	a.Stop("killed")
}

// testReboot removes what a reboot removes: processes, namespaces and files in /run.
// The allocation restarts with a new namespace, and the task attaches it again. Where Nomad
// keeps its leases in /var/lib, docs/nomad.md has the operator remove them.
func testReboot(a *agent) {
	alloc := a.run("reboot", storage())[0]
	before := alloc.Setup()
	main := strings.Fields(alloc.Inside("ip", "-4", "-br", "addr", "show", "eth0"))[2]
	a.Signal(unix.SIGINT)
	nomadagent.KillTasks()
	if err := netns.Remove(before.Netns); err != nil {
		a.Fatal(err)
	}
	sandbox.Run(a, "rm", "-rf", a.leases())
	address, _, _ := strings.Cut(main, "/")
	sandbox.Run(a, "sh", "-c", "iptables -S CNI-FORWARD | grep -F ' "+address+"/32 ' | sed s/-A/-D/ | xargs -r -L1 iptables")
	a.Start()
	a.Await("the allocation is attached anew", func() bool {
		now := a.Allocations("reboot")
		return len(now) == 1 && now[0].ID == alloc.ID && strings.Count(events(now[0], "net"), "Attached storage") == 2 && now[0].TaskStates["main"].State == "running"
	})
	after := alloc.Setup()
	if nomadagent.Networks(after) != "net1=storage" || after.Attachments[0].MAC == before.Attachments[0].MAC {
		a.Errorf("attached are %+v, before %+v", after, before)
	}
	if out := alloc.Inside("ip", "-br", "addr", "show", "net1"); !strings.Contains(out, after.Attachments[0].Addresses[0].String()) {
		a.Errorf("the namespace has\n%s", out)
	}
	a.Stop("reboot")
	// Nomad's bridge network does not clean up its attachment of the earlier boot.
	if err := os.RemoveAll("/var/lib/cni/results/nomad-" + alloc.ID + "-eth0"); err != nil {
		a.Error(err)
	}
}

// testRefused: the events of a task name the mistakes in its config.
func testRefused(a *agent) {
	tests := map[string]struct {
		mode, config string
		words        []string
	}{
		"unknown-key":     {"bridge", `network "storage" { address = "10.89.0.9" }`, []string{`"address"`}},
		"unknown-network": {"bridge", `network "storag" {}`, []string{`unknown network "storag"`, "storage"}},
		"bad-address":     {"bridge", `network "storage" { ips = ["10.89.0"] }`, []string{`config: network "storage": ips[0]: "10.89.0"`, "want an IP address"}},
		"bad-interface":   {"bridge", `network "storage" { interface = "a name that is too long" }`, []string{`network "storage": interface`, "bytes"}},
		"policy":          {"bridge", `network "closed" {}`, []string{`network "closed" as net1 is denied`, `namespace "default"`}},
		"host":            {"host", `network "storage" {}`, []string{"no network namespace of its own", `mode = "bridge"`}},
		"no-port":         {"bridge", `network "storage" { ports = ["repl"] }`, []string{`"repl" is not a port of the group`}},
	}
	for id, test := range tests {
		j := storage()
		j.mode, j.networks["net"] = test.mode, strings.NewReplacer("{ ", "{\n", " }", "\n}").Replace(test.config)
		a.Submit(id, j.hcl(id))
	}
	var ids []string
	for id, test := range tests {
		ids = append(ids, id)
		text := events(a.AwaitFailed(id), "net")
		for _, word := range test.words {
			if !strings.Contains(text, word) {
				a.Errorf("%s: the events do not say %q:\n%s", id, word, text)
			}
		}
	}
	a.Stop(ids...)
}

// testCrowd runs many allocations with two attachment tasks each, one of them the
// main task: so no executor's memory counts.
func testCrowd(a *agent) {
	const hcl = `job "crowd" {
  group "g" {
    count = %d
    ephemeral_disk {
      size = 10
    }
    network {
      mode = "bridge"
    }
    task "net" {
      driver = "allocnet"
      lifecycle {
        hook    = "prestart"
        sidecar = true
      }
      config {
        network "storage" {
          interface = "net1"
        }
      }
      resources {
        cpu    = 10
        memory = 10
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
    }
    task "main" {
      driver = "allocnet"
      config {
        network "mgmt" {
          interface = "mgmt0"
        }
      }
      resources {
        cpu    = 10
        memory = 10
      }
      logs {
        max_files     = 1
        max_file_size = 1
      }
    }
  }
}
`
	count := 50
	a.Submit("crowd", fmt.Sprintf(hcl, count))
	owner := map[string]string{}
	for _, alloc := range a.AwaitRunning("crowd", count) {
		for _, n := range alloc.Setup().Attachments {
			address := n.Addresses[0].String()
			if other, taken := owner[address]; taken {
				a.Errorf("%s has the address %s of %s", alloc.ID, address, other)
			}
			owner[address] = alloc.ID
		}
	}
	if len(owner) != 2*count {
		a.Errorf("%d addresses of %d allocations, want two each", len(owner), count)
	}
	a.Stop("crowd")
}

// testScheduling: jobs are placed on the one of two clients that has their network.
// Without the file of the network the node is not eligible any more.
func testScheduling(a *agent) {
	second := startSecond(a)
	defer second()
	file := dir + "/second-cni/40-fabric.conflist"
	sandbox.WriteFile(a, file, bridge("fabric", "10.95.0.0/24", ""))
	const attribute = "driver.allocnet.network.fabric"
	var eligible node
	a.Await("the second node offers the network", func() bool {
		for _, n := range a.nodes() {
			if n.Name == "second" && n.Attributes[attribute] == "1" {
				eligible = n
				return true
			}
		}
		return false
	})
	if eligible.Attributes[attribute+".subnet"] != "10.95.0.0/24" || eligible.Attributes[attribute+".mtu"] != "1400" || eligible.Attributes["unique."+attribute+".free"] != "253" {
		a.Errorf("the node's attributes are %v", eligible.Attributes)
	}
	constrained := storage()
	constrained.count = 2
	constrained.networks["net"] = `network "fabric" {}`
	constrained.more = `constraint {
      attribute = "${attr.driver.allocnet.network.fabric}"
      value     = "1"
    }`
	for _, alloc := range a.run("there", constrained) {
		if alloc.NodeID != eligible.ID {
			a.Errorf("an allocation is on node %s", alloc.NodeID)
		}
	}
	sandbox.Run(a, "rm", file)
	a.Await("the second node no longer offers the network", func() bool {
		for _, n := range a.nodes() {
			if n.Name == "second" {
				_, there := n.Attributes[attribute]
				return !there
			}
		}
		return false
	})
	a.Submit("nowhere", constrained.hcl("nowhere"))
	a.Await("the job is blocked", func() bool {
		var evaluations []struct{ Status string }
		_ = a.API("job/nowhere/evaluations", &evaluations) // asked again
		for _, e := range evaluations {
			if e.Status == "blocked" {
				return true
			}
		}
		return false
	})
	if placed := a.Allocations("nowhere"); len(placed) != 0 {
		a.Errorf("placed: %+v", placed)
	}
	a.Stop("nowhere", "there")
	a.Await("the second client's networks are gone", func() bool {
		out, err := exec.Command("nsenter", "--net="+dir+"/ns/second", "ip", "-br", "link").Output()
		return err == nil && !strings.Contains(string(out), "veth")
	})
}
