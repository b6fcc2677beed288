// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/netns"
)

func address(text string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(text)} }

func TestPlan(t *testing.T) {
	ours := ownerOf("web", "a", "")
	lease := Object{Kind: Lease, Owner: ours, Addresses: address("10.0.0.2")}
	firewall := Object{Kind: Firewall, addressOnly: true, Addresses: address("10.0.0.2")}
	others := Object{Kind: Lease, Owner: ownerOf("web", "b", ""), Addresses: address("10.0.0.2")}
	for name, test := range map[string]struct {
		objects []Object
		change  func(f *scanResult, r *recordSet, l map[string]string)
		leaked  bool // of the last object
		why     string
	}{
		"no record": {objects: []Object{lease}, leaked: true, why: "no allocation of that ID"},
		"live by a source": {objects: []Object{lease}, why: "its allocation lives: Nomad",
			change: func(_ *scanResult, _ *recordSet, l map[string]string) { l["a"] = "Nomad" }},
		"on record and lives": {objects: []Object{lease}, why: "on record and lives",
			change: func(_ *scanResult, r *recordSet, _ map[string]string) { r.allocations["a"] = recordedAllocation{} }},
		"on record and dead": {objects: []Object{lease}, leaked: true, why: "the namespace is missing",
			change: func(_ *scanResult, r *recordSet, _ map[string]string) {
				r.allocations["a"] = recordedAllocation{dead: "the namespace is missing"}
			}},
		"on record and dead, but live by a source": {objects: []Object{lease}, why: "Nomad",
			change: func(_ *scanResult, r *recordSet, l map[string]string) {
				r.allocations["a"], l["a"] = recordedAllocation{dead: "the namespace is missing"}, "Nomad"
			}},
		"on record but unreadable": {objects: []Object{lease}, why: "unknown whether its allocation lives: format version 2",
			change: func(_ *scanResult, r *recordSet, _ map[string]string) {
				r.allocations["a"] = recordedAllocation{unknown: "format version 2"}
			}},
		"damaged, and forgotten": {objects: []Object{lease}, leaked: true, why: "no allocation of that ID",
			change: func(_ *scanResult, r *recordSet, _ map[string]string) {
				r.allocations["a"] = recordedAllocation{unknown: "damaged", lost: true}
				r.forget("a")
			}},
		"damaged with an attachment, and forgotten": {objects: []Object{lease}, why: "unknown whether its allocation lives: damaged",
			change: func(_ *scanResult, r *recordSet, _ map[string]string) {
				r.allocations["a"] = recordedAllocation{unknown: "damaged"}
				r.forget("a")
			}},
		"damaged, and another one is forgotten": {objects: []Object{lease}, why: "unknown whether its allocation lives: damaged",
			change: func(_ *scanResult, r *recordSet, _ map[string]string) {
				r.allocations["a"] = recordedAllocation{unknown: "damaged", lost: true}
				r.forget("b")
			}},
		"damaged, and forgotten while a namespace has the address": {objects: []Object{lease}, why: "10.0.0.2 is in use in /proc/7/ns/net",
			change: func(f *scanResult, r *recordSet, _ map[string]string) {
				r.allocations["a"] = recordedAllocation{unknown: "damaged", lost: true}
				r.forget("a")
				f.places = []netns.Place{{Path: "/proc/7/ns/net", Inode: 7, Addresses: address("10.0.0.2")}}
			}},
		"liveness evidence": {objects: []Object{lease}, why: "namespace /run/netns/a",
			change: func(f *scanResult, _ *recordSet, _ map[string]string) {
				f.homes = []home{{allocation: "a", why: "namespace /run/netns/a"}}
			}},
		"another network": {objects: []Object{{Kind: Lease, Owner: ownerOf("nomad", "a", ""), Addresses: address("10.0.0.2")}}, why: `network "nomad" is neither configured nor recorded`},
		"the orchestrator's own": {objects: []Object{{Kind: Lease, Owner: Owner{Network: "nomad", Allocation: "a"}}}, leaked: true, why: "no allocation of that ID",
			change: func(_ *scanResult, r *recordSet, _ map[string]string) {
				r.orchestrated = func(o Owner) bool { return o.Network == "nomad" && o.Allocation == "a" }
			}},
		"the orchestrator's own, and it lives": {objects: []Object{{Kind: Lease, Owner: Owner{Network: "nomad", Allocation: "a"}}}, why: "its allocation lives: Nomad",
			change: func(_ *scanResult, r *recordSet, l map[string]string) {
				l["a"], r.orchestrated = "Nomad", func(Owner) bool { return true }
			}},
		"the orchestrator's own, with a namespace": {objects: []Object{{Kind: Lease, Owner: Owner{Network: "nomad", Allocation: "a"}}}, why: "namespace /run/docker/netns/1",
			change: func(f *scanResult, r *recordSet, _ map[string]string) {
				f.homes, r.orchestrated = []home{{allocation: "a", why: "namespace /run/docker/netns/1"}}, func(Owner) bool { return true }
			}},
		"unknown network": {objects: []Object{{Kind: Ports, Owner: ownerOf("", "a", ""), Addresses: address("10.0.0.2")}}, why: "its network is unknown"},
		"of a pool that two networks use": {objects: []Object{{Kind: Lease, Owner: ownerOf("", "a", "eth0"), networks: []string{"web", "web2"}, Addresses: address("10.0.0.2")}}, leaked: true, why: "no allocation of that ID",
			change: func(_ *scanResult, r *recordSet, _ map[string]string) { r.networks["web2"] = true }},
		"of a pool that a foreign network uses, too": {objects: []Object{{Kind: Lease, Owner: ownerOf("", "a", "eth0"), networks: []string{"web", "theirs"}, Addresses: address("10.0.0.2")}}, why: `network "theirs" is neither configured nor recorded`},
		"lease within the grace period": {objects: []Object{{Kind: Lease, Owner: ours, Created: time.Unix(101, 0), Addresses: address("10.0.0.2")}, {Kind: Masquerade, Owner: ours}}, why: "within the grace period",
			change: func(_ *scanResult, r *recordSet, _ map[string]string) {
				r.now, r.grace = time.Unix(160, 0), time.Minute
			}},
		"given out long ago": {objects: []Object{{Kind: Lease, Owner: ours, Created: time.Unix(100, 0), Addresses: address("10.0.0.2")}}, leaked: true, why: "no allocation of that ID",
			change: func(_ *scanResult, r *recordSet, _ map[string]string) {
				r.now, r.grace = time.Unix(160, 0), time.Minute
			}},
		"lease from shortly before the clock was set back a little": {objects: []Object{{Kind: Lease, Owner: ours, Created: time.Unix(219, 0), Addresses: address("10.0.0.2")}}, why: "within the grace period",
			change: func(_ *scanResult, r *recordSet, _ map[string]string) {
				r.now, r.grace = time.Unix(160, 0), time.Minute
			}},
		"lease from long before the clock was set back": {objects: []Object{{Kind: Lease, Owner: ours, Created: time.Unix(220, 0), Addresses: address("10.0.0.2")}}, leaked: true, why: "no allocation of that ID",
			change: func(_ *scanResult, r *recordSet, _ map[string]string) {
				r.now, r.grace = time.Unix(160, 0), time.Minute
			}},
		"torn down during the scan": {objects: []Object{lease, firewall}, why: "torn down during the scan", change: func(_ *scanResult, r *recordSet, _ map[string]string) { r.ended = map[string]bool{"a": true} }},
		"unknown owner":             {objects: []Object{{Kind: Masquerade, key: "CNI-0"}}, why: "its owner is unknown"},
		"address in use": {objects: []Object{lease}, why: "10.0.0.2 is in use in /proc/7/ns/net",
			change: func(f *scanResult, _ *recordSet, _ map[string]string) {
				f.places = []netns.Place{{Path: "/proc/7/ns/net", Addresses: lease.Addresses}}
			}},
		"address in use by another, who is on record with it": {
			objects: []Object{others, {Kind: Masquerade, Owner: ours, Addresses: lease.Addresses}}, leaked: true, why: "no allocation of that ID",
			change: func(f *scanResult, r *recordSet, _ map[string]string) {
				f.places, r.allocations["b"] = []netns.Place{{Path: "/run/netns/b", Inode: 7, Addresses: lease.Addresses}}, recordedAllocation{inode: 7}
			}},
		"address rule of a dead one":    {objects: []Object{lease, firewall}, leaked: true, why: "no allocation of that ID"},
		"address rule without an owner": {objects: []Object{firewall}, why: "the owner of address 10.0.0.2 is unknown"},
		"address rule of a live one":    {objects: []Object{lease, firewall}, why: "on record and lives", change: func(_ *scanResult, r *recordSet, _ map[string]string) { r.allocations["a"] = recordedAllocation{} }},
		"address rule, used meanwhile": {objects: []Object{lease, others, firewall}, why: "on record and lives",
			change: func(_ *scanResult, r *recordSet, _ map[string]string) { r.allocations["b"] = recordedAllocation{} }},
		"address rule of one on record and dead": {objects: []Object{firewall}, leaked: true, why: "gone",
			change: func(_ *scanResult, r *recordSet, _ map[string]string) {
				r.allocations["c"] = recordedAllocation{dead: "gone", addresses: firewall.Addresses}
			}},
		"address rule of one on record and dead, while another may have the address": {objects: []Object{firewall}, why: "may be in use where nothing can be seen",
			change: func(f *scanResult, r *recordSet, _ map[string]string) {
				f.unseen, r.allocations["c"] = errors.New("permission denied"), recordedAllocation{dead: "gone", addresses: firewall.Addresses}
			}},
		"address rule, address in a namespace": {objects: []Object{lease, firewall}, why: "is in use in",
			change: func(f *scanResult, _ *recordSet, _ map[string]string) {
				f.places = []netns.Place{{Path: "/run/netns/x", Addresses: firewall.Addresses}}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			found := &scanResult{Objects: test.objects}
			records := recordSet{networks: map[string]bool{"web": true}, allocations: map[string]recordedAllocation{}}
			live := map[string]string{}
			if test.change != nil {
				test.change(found, &records, live)
			}
			decisions, _, err := plan(found, records, func(id string) string { return live[id] }, "")
			if err != nil {
				t.Fatal(err)
			}
			got := decisions[len(decisions)-1]
			if got.Leaked != test.leaked || !strings.Contains(got.Reason, test.why) {
				t.Errorf("leaked %v because %q, want %v because %q", got.Leaked, got.Reason, test.leaked, test.why)
			}
		})
	}
}

func TestPlanWithoutLiveSet(t *testing.T) {
	found := &scanResult{Objects: []Object{{Kind: Lease, Owner: ownerOf("web", "a", "")}}}
	decisions, _, err := plan(found, recordSet{networks: map[string]bool{"web": true}}, nil, "")
	if !errors.Is(err, ErrLiveUnknown) || decisions != nil {
		t.Errorf("got %v, %v, want no decisions and ErrLiveUnknown", decisions, err)
	}
}
