// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadclient"
	"github.com/allocnet/allocnet/nomad"
	"github.com/allocnet/allocnet/policy"
)

// TestEnds ends allocations one by one, and ten at once. Nothing is left.
func TestEnds(t *testing.T) {
	oldestAndNewest(t, func(h *host) {
		h.stop(h.one(group("stopped", extra)))
		ten := group("ten", extra)
		ten.Count = 10
		h.stopAtOnce(h.start(ten))
	})
}

// stopAtOnce stops allocations as a drain does.
func (h *host) stopAtOnce(allocations []*nomadclient.Allocation) {
	h.Helper()
	var all sync.WaitGroup
	for _, a := range allocations {
		all.Go(func() { h.stop(a) })
	}
	all.Wait()
}

// TestDNS: a task gets the DNS that the host's policy selects, which is that of an extra network here. The
// dns block of the group replaces it. Before 1.11 a task that starts after a restart of the client
// does not get it: the client has forgotten it.
func TestDNS(t *testing.T) {
	if err := os.MkdirAll(filepath.Dir(policy.DefaultFile), 0o755); err != nil {
		t.Fatal(err)
	}
	eachVersion(t, func(h *host) {
		h.write(policy.DefaultFile, `{"dns": "merge"}`)
		defer os.Remove(policy.DefaultFile)
		names := args{"networks": "names"}
		own := group("own", names)
		own.Networks[0].DNS = &nomadclient.DNS{Servers: []string{"192.0.2.9"}}
		merged, replaced := h.one(group("merged", names)), h.one(own)
		want := &nomadclient.DNS{Servers: []string{"192.0.2.53"}, Searches: []string{"names.example"}}
		if diff := cmp.Diff(want, merged.TaskDNS()); diff != "" {
			h.Errorf("the DNS of the task: %s", diff)
		}
		if diff := cmp.Diff(own.Networks[0].DNS, replaced.TaskDNS()); diff != "" {
			h.Errorf("the DNS of the task with a dns block: %s", diff)
		}
		h.restart()
		if !h.config.Version.Has(nomadclient.ConnectOnCNI) {
			want = nil
		}
		if diff := cmp.Diff(want, merged.TaskDNS()); diff != "" {
			h.Errorf("the DNS of a task after a restart of the client: %s", diff)
		}
		h.stop(merged, replaced)
	})
}

// TestUpdates updates a job in place, which keeps its networks, and with a change that replaces its
// allocation: 1.8.2 takes no notice of it.
func TestUpdates(t *testing.T) {
	eachVersion(t, func(h *host) {
		first := h.one(group("updated", extra))
		attached := h.status(first)
		same := h.update(first, group("updated", extra))
		if diff := cmp.Diff(attached, h.status(same)); same != first || diff != "" {
			h.Errorf("after an update in place: %s", diff)
		}
		second := h.update(first, group("updated", args{"networks": "storage,backup"}))
		if h.config.Version == nomad.JobArguments {
			h.requireNetworks(second, "eth0=web net1=storage net2=mgmt")
		} else {
			h.requireNetworks(second, "eth0=web net1=storage net2=backup")
		}
		h.stop(second)
	})
}

func (h *host) update(a *nomadclient.Allocation, g nomadclient.Group) *nomadclient.Allocation {
	h.Helper()
	next, err := h.client.Update(a, g)
	if err != nil {
		h.Fatal(err)
	}
	return next
}

// TestNamespaceGone deletes a namespace while Nomad's allocation runs.
func TestNamespaceGone(t *testing.T) {
	oldestAndNewest(t, func(h *host) {
		a := h.one(group("gone", extra))
		if err := netns.Remove("/run/netns/" + a.ID); err != nil {
			h.Fatal(err)
		}
		h.stop(a)
	})
}

// TestLongCrowd starts and stops many allocations of three networks at once.
func TestLongCrowd(t *testing.T) {
	h := newHost(t, newest())
	crowd := group("crowd", extra)
	crowd.Count = 50
	allocations := h.start(crowd)
	owner := map[string]string{}
	for _, a := range allocations {
		attached := h.requireNetworks(a, "eth0=web net1=storage net2=mgmt")
		for _, address := range attached.Addresses() {
			if other, taken := owner[address.String()]; taken {
				t.Errorf("%s has the address %s of %s", a.ID, address, other)
			}
			owner[address.String()] = a.ID
		}
	}
	if len(owner) != 3*crowd.Count {
		t.Errorf("%d addresses of %d allocations, want three each", len(owner), crowd.Count)
	}
	h.stopAtOnce(allocations)
}

// TestReboot: after a reboot the client calls ADD with the IDs of before, without a DEL. The state on disk
// is that of before, and so are the networks.
func TestReboot(t *testing.T) {
	oldestAndNewest(t, func(h *host) {
		reborn := group("reborn", args{"networks": "storage,vlan,backup"})
		reborn.Count = 2
		allocations := h.start(reborn)
		sandbox.Reboot(h.T)
		h.restart()
		for _, a := range allocations {
			h.requireNetworks(a, "eth0=web net1=storage net2=vlan net3=backup")
			h.allocnet("check", a.ID)
			h.requireStatusFile(a)
			h.task(a)
			if got := sandbox.Run(h.T, web, "get", url(a)); !strings.HasPrefix(got, "reborn ") {
				h.Errorf("%s answers %q", url(a), got)
			}
		}
		leases := sandbox.Run(h.T, "find", "/var/lib/cni/networks", "-name", "[0-9]*.*")
		if got := strings.Count(leases, "\n"); got != 8 {
			h.Errorf("%d leases, want 8: two allocations with four addresses each\n%s", got, leases)
		}
		h.stop(allocations...)
		h.warm() // creates the bridges that no allocation of the test has created
	})
}
