// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/selection"
)

// TestInterfaceOfAnotherProgram: once DEL has removed an interface, the name is free for
// the program that made the namespace. Retries for another attachment of the same task
// do not remove the interface that the program gives that name.
func TestInterfaceOfAnotherProgram(t *testing.T) {
	h := newHost(t)
	h.fake("fake", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"DEL": {Code: 7, Msg: "cannot", FailTimes: 1, Counter: t.TempDir() + "/counter"}}})
	path := foreign(t, "r1")
	e := h.engine(func(c *hook.Config) { c.Cleaner = &cleanup.Cleaner{} })
	ctx := context.Background()
	request := hook.Request{ID: "r1", Netns: path, Task: "web", Networks: []selection.Element{{Name: "storage"}, {Name: "fake"}}}
	if _, err := e.Extend(ctx, request); err != nil {
		t.Fatal(err)
	}
	if err := e.Release(ctx, "r1", "web"); err == nil {
		t.Error("a DEL that fails succeeded")
	}
	sandbox.Run(t, "ip", "-n", "r1", "link", "add", "net1", "type", "veth", "peer", "name", "peer1") // DEL has removed net1
	if err := e.Release(ctx, "r1", "web"); err != nil {
		t.Error(err)
	}
	if links := sandbox.Run(t, "ip", "-n", "r1", "-br", "link"); !strings.Contains(links, "net1") {
		t.Errorf("the namespace has lost the net1 of another program:\n%s", links)
	}
}

// TestLoopbackNamedAsAnInterface: a job that gives lo the name of one of its interfaces keeps
// no other network from being removed.
func TestLoopbackNamedAsAnInterface(t *testing.T) {
	for _, executor := range []string{"plugins", "auto"} {
		t.Run(executor, func(t *testing.T) {
			h := newHost(t)
			t.Setenv("ALLOCNET_EXECUTOR", executor)
			defer os.RemoveAll("/run/pair")
			for _, n := range []string{"1", "2"} {
				sandbox.WriteFile(t, h.conf+"/60-pair"+n+".conflist", `{"cniVersion": "1.0.0", "name": "pair`+n+`", "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "dataDir": "/run/pair", "ranges": [[{"subnet": "10.97.`+n+`.0/24"}]]}}]}`)
			}
			sandbox.Run(t, "ip", "netns", "add", "c1")
			defer sandbox.Run(t, "ip", "netns", "del", "c1")
			defer h.allocnet("cleanup", "c1", "--forget")
			h.attach("c1", "--netns", "/run/netns/c1", "--networks", "pair1@net1,pair2@net2")
			for _, command := range []string{"link del net2", "link set lo down", "link set lo name net2"} {
				sandbox.Run(t, append([]string{"ip", "-n", "c1"}, strings.Fields(command)...)...)
			}
			h.must("detach", "c1")
			if left := sandbox.Run(t, "ip", "-n", "c1", "-brief", "link"); strings.Contains(left, "net1") || !strings.Contains(left, "net2") {
				t.Errorf("want loopback alone:\n%s", left)
			}
		})
	}
}

// TestDetachOfChangedMACs: an attachment whose ends of its pair have got other MACs, as from a
// virtual machine inside and from udev outside, is removed with them.
func TestDetachOfChangedMACs(t *testing.T) {
	for _, executor := range []string{"plugins", "auto"} {
		t.Run(executor, func(t *testing.T) {
			h := newHost(t)
			t.Setenv("ALLOCNET_EXECUTOR", executor)
			sandbox.Run(t, "ip", "netns", "add", "c1")
			defer sandbox.Run(t, "ip", "netns", "del", "c1")
			h.attach("c1", "--netns", "/run/netns/c1", "--primary", "web")
			sandbox.Run(t, "ip", "-n", "c1", "link", "set", "eth0", "address", "02:00:00:00:00:01")
			for line := range strings.Lines(sandbox.Run(t, "ip", "-o", "link", "show", "type", "veth")) {
				outer, _, _ := strings.Cut(strings.Fields(line)[1], "@")
				if strings.Contains(line, "link-netns") {
					sandbox.Run(t, "ip", "link", "set", outer, "address", "02:00:00:00:00:02")
				}
			}
			h.must("detach", "c1")
			if left := sandbox.Run(t, "ip", "-n", "c1", "-brief", "link"); strings.Contains(left, "eth0") {
				t.Errorf("left in the namespace:\n%s", left)
			}
		})
	}
}
