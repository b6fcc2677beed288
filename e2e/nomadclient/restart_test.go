// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadclient"
)

func (h *host) restart() {
	h.Helper()
	if err := h.client.Restart(); err != nil {
		h.Fatal(err)
	}
}

// TestRestarts restarts the client while allocations run: their networks and connections stay.
func TestRestarts(t *testing.T) {
	oldestAndNewest(t, func(h *host) {
		a := h.one(group("kept", extra))
		h.task(a)
		attached := h.status(a)
		for range 2 {
			h.restart()
			if got := sandbox.Run(h.T, web, "get", url(a)); !strings.HasPrefix(got, "kept 0") {
				h.Errorf("after a restart %s answers %q", url(a), got)
			}
			if diff := cmp.Diff(attached, h.status(a)); diff != "" {
				h.Errorf("after a restart: %s", diff)
			}
		}
		h.stop(a)
	})
}

// TestCheck restarts the client without things that CHECK must not need: the agent, a valid plugin
// configuration, attachments of other callers. Only a damaged network is set up again: in a new namespace,
// without a DEL. A client that does not call CHECK leaves it damaged.
func TestCheck(t *testing.T) {
	eachVersion(t, func(h *host) {
		a := h.one(group("checked", extra))
		before := h.setup(a)
		conflist := confDir + "/00-multi.conflist"
		sound := read(h.T, conflist)
		with := func(keys string) {
			h.write(conflist, strings.Replace(sound, `"type": "allocnet-cni",`, `"type": "allocnet-cni", `+keys+`,`, 1))
		}
		for name, prepare := range map[string]func(){
			"the agent is required and stopped":     func() { with(`"agent": {"socket": "/run/no-agent.sock", "mode": "require"}`) },
			"the configuration has a wrong key":     func() { with(`"no-such-key": true, "logLevel": "shout"`) },
			"another attachment was interrupted":    func() { h.interruptExtend(a.ID) },
			"the networks' configurations are gone": func() { with(`"confDir": "/run/none"`) },
		} {
			prepare()
			h.restart()
			if now := h.setup(a); !now.Created.Equal(before.Created) {
				h.Errorf("%s: it was set up anew", name)
			}
			h.write(conflist, sound)
		}
		h.requireRepaired(a)
		h.stop(a)
	})
}

// requireRepaired damages a network. If the client calls CHECK, a restart sets it up again.
func (h *host) requireRepaired(a *nomadclient.Allocation) {
	h.Helper()
	before := h.setup(a)
	sandbox.Run(h.T, "ip", "-n", a.ID, "link", "delete", "net1")
	h.restart()
	after := h.setup(a)
	if !h.config.Version.Has(nomadclient.CheckOnRestart) {
		if !after.Created.Equal(before.Created) {
			h.Error("it was set up anew, and no version before 1.9.5 calls CHECK")
		}
		if out, err := exec.Command(allocnet, "check", a.ID).CombinedOutput(); err == nil || !strings.Contains(string(out), "net1") {
			h.Errorf("allocnet check after the restart: %v\n%s", err, out)
		}
		return
	}
	if after.Created.Equal(before.Created) {
		h.Error("it was not set up anew")
	}
	h.requireNetworks(a, "eth0=web net1=storage net2=mgmt")
	h.allocnet("check", a.ID)
	h.requireLeases(a.ID, 3)
}

// requireLeases requires so many leases of an allocation, in all networks.
func (h *host) requireLeases(id string, want int) {
	h.Helper()
	leases := sandbox.Run(h.T, "grep", "-rl", "--", id, "/var/lib/cni/networks")
	if got := strings.Count(leases, "\n"); got != want {
		h.Errorf("%d leases, want %d:\n%s", got, want, leases)
	}
}

// interruptExtend leaves an attachment in the state that a killed driver leaves.
func (h *host) interruptExtend(id string) {
	h.Helper()
	h.allocnet("attach", id, "--networks", "backup@data0", "--conf-dir", confDir, "--plugin-dir", sandbox.PluginDir())
	sandbox.Interrupt(h, id, "data0")
}

// TestCheckNeedsBridge: without a plugin bridge of 1.3.0 or later, Nomad calls no CHECK, whatever the
// network's plugins are.
func TestCheckNeedsBridge(t *testing.T) {
	h := newHost(t, newest())
	h.config.PluginDirs = []string{plugins}
	h.client = nomadclient.New(h.config)
	a := h.one(group("unchecked", extra))
	before := h.setup(a)
	sandbox.Run(t, "ip", "-n", a.ID, "link", "delete", "net1")
	h.restart()
	if !h.setup(a).Created.Equal(before.Created) {
		t.Error("it was set up anew")
	}
	h.stop(a)
}

// TestConflistGone: a client that restarts without the conflist fails the allocation without a DEL, and leaves
// its namespace.
func TestConflistGone(t *testing.T) {
	h := newHost(t, newest())
	a := h.one(group("orphaned", extra))
	conflist := confDir + "/00-multi.conflist"
	text := read(t, conflist)
	sandbox.Run(t, "rm", conflist)
	if err := h.client.Restart(); err == nil || !strings.Contains(err.Error(), `not found for name "multi"`) {
		t.Errorf("%v: want that there is no such network", err)
	}
	h.requireNetworks(a, "eth0=web net1=storage net2=mgmt")
	h.write(conflist, text)
	if err := netns.Remove("/run/netns/" + a.ID); err != nil {
		t.Fatal(err)
	}
	h.allocnet("detach", a.ID)
	h.forget(a)
}

// forget removes the files of the Nomad client of an allocation for which no DEL has succeeded.
func (h *host) forget(a *nomadclient.Allocation) {
	h.Helper()
	sandbox.Run(h.T, "rm", "-r", allocDir+"/"+a.ID, "/var/lib/cni/results/multi-"+a.ID+"-eth0")
}

// TestStatus: in version 1.1.0 of the specification go-cni calls STATUS before a DEL, and if that fails,
// because the host lacks a network, there is no DEL. The conflist of allocnet conf generate has version 1.0.0.
func TestStatus(t *testing.T) {
	h := newHost(t, newest())
	conflist, network := confDir+"/00-multi.conflist", confDir+"/10-web.conflist"
	generated := read(t, conflist)
	for version, leaks := range map[string]bool{"1.0.0": false, "1.1.0": true} {
		h.write(conflist, strings.Replace(generated, `"cniVersion": "1.0.0"`, fmt.Sprintf(`"cniVersion": %q`, version), 1))
		h.stop(h.one(group("ready", extra)))
		a := h.one(group("unready", extra))
		sandbox.Run(t, "mv", network, dir+"/aside")
		h.client.Stop(a)
		sandbox.Run(t, "mv", dir+"/aside", network)
		if (a.Leaked != nil) != leaks {
			t.Errorf("with version %s the teardown says %v", version, a.Leaked)
		}
		if leaks {
			h.requireNetworks(a, "eth0=web net1=storage net2=mgmt")
			h.allocnet("detach", a.ID)
			h.forget(a)
		}
	}
}
