// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
)

// TestLife has all combinations: any liveness evidence, or doubt, keeps what is not on
// record, and without a proof nothing is dead.
func TestLife(t *testing.T) {
	some := func(bit, of int) string {
		if of&bit != 0 {
			return "some"
		}
		return ""
	}
	records := []*recordedAllocation{nil, {}, {dead: "its namespace is missing"}, {unknown: "damaged"}, {unknown: "damaged", dead: "its namespace is missing"}}
	for bits := range 1 << 7 {
		for _, recorded := range records {
			e := evidence{
				recorded: recorded, listed: some(1, bits), home: some(2, bits), used: some(4, bits), unseen: some(8, bits),
				ended: bits&16 != 0, recent: bits&32 != 0, proof: bits&64 != 0,
			}
			got, why := e.life()
			want := bits == 64
			if recorded != nil {
				want = e.listed == "" && recorded.unknown == "" && recorded.dead != ""
			}
			if (got == dead) != want || why == "" {
				t.Errorf("%+v on record %+v is %v because %q, want dead: %v", e, recorded, got, why, want)
			}
			sign := e.listed != "" || recorded == nil && !e.ended && (e.home != "" || e.used != "")
			if sign && got != alive {
				t.Errorf("%+v on record %+v is %v because %q, want it alive", e, recorded, got, why)
			}
		}
	}
}

// world is a generated host. Allocations share few addresses, so that most have several leases.
type world struct {
	found   scanResult
	records recordSet
	listed  map[string]string
	// signs are the allocations with liveness evidence, and proofs those that can be known to be dead.
	signs, proofs map[string]bool
}

var (
	worldNetworks  = []string{"web", "storage", "foreign", ""}
	worldAddresses = []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3"), netip.MustParseAddr("fd00::2"), netip.MustParseAddr("fd00::3")}
	worldKinds     = []Kind{Masquerade, Ports, Lease, Link, Tuning, Cache}
)

func generate(r *rand.Rand) *world {
	w := &world{
		records: recordSet{networks: map[string]bool{"web": true, "storage": true}, allocations: map[string]recordedAllocation{}},
		listed:  map[string]string{}, signs: map[string]bool{}, proofs: map[string]bool{},
	}
	for i := range 1 + r.IntN(5) {
		w.addAllocation(r, fmt.Sprintf("a%d", i), uint64(100+i))
	}
	for _, address := range worldAddresses {
		if r.IntN(2) == 0 {
			w.found.Objects = append(w.found.Objects, Object{Kind: Firewall, addressOnly: true, Addresses: []netip.Addr{address}})
		}
	}
	r.Shuffle(len(w.found.Objects), func(i, j int) { w.found.Objects[i], w.found.Objects[j] = w.found.Objects[j], w.found.Objects[i] })
	if r.IntN(20) == 0 {
		w.found.unseen = errors.New("permission denied")
	}
	return w
}

func (w *world) addAllocation(r *rand.Rand, id string, inode uint64) {
	containerID := id
	var addresses []netip.Addr
	for range 1 + r.IntN(5) {
		if r.IntN(4) == 0 {
			containerID = id + ".allocnet.net1"
		}
		o := Object{Kind: worldKinds[r.IntN(len(worldKinds))], Owner: ownerOf(worldNetworks[r.IntN(len(worldNetworks))], containerID, "")}
		if r.IntN(2) == 0 {
			o.Addresses = []netip.Addr{worldAddresses[r.IntN(len(worldAddresses))]}
			w.proofs[id] = true
		}
		addresses = append(addresses, o.Addresses...)
		w.found.Objects = append(w.found.Objects, o)
	}
	place := netns.Place{Path: "/proc/" + id, Inode: inode, Addresses: addresses}
	switch r.IntN(8) {
	case 0:
		w.listed[id] = "Nomad"
	case 1:
		place.Mounts = []string{"/run/crt/" + id}
	case 2:
		w.found.homes = append(w.found.homes, home{id, inode, "namespace"})
	case 3:
		w.records.allocations[id] = recordedAllocation{addresses: addresses, inode: inode}
	case 4: // of another runtime: nothing but the addresses shows it
		if len(addresses) == 0 {
			return
		}
		place.Inode *= uint64(r.IntN(2))
	default: // it is dead
		return
	}
	w.signs[id] = true
	w.found.places = append(w.found.places, place)
}

// TestPlanGenerated: of an allocation with any liveness evidence no object is in the plan, whatever
// else has its addresses. All objects of a dead one are, except those of unknown and other
// networks, which cleanup of the allocation removes.
func TestPlanGenerated(t *testing.T) {
	for seed := range uint64(1000) {
		w := generate(rand.New(rand.NewPCG(seed, 0)))
		live := func(id string) string { return w.listed[id] }
		decisions, _, err := plan(&w.found, w.records, live, "")
		if err != nil {
			t.Fatal(err)
		}
		kept := map[netip.Addr]bool{}
		for _, p := range w.found.places {
			for _, address := range p.Addresses {
				kept[address] = true
			}
		}
		for _, d := range decisions {
			w.require(t, d, kept)
		}
		for id := range w.proofs {
			again, doubt, err := plan(&w.found, w.records, live, id)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range again {
				if d.Owner.Allocation == id && !d.addressOnly && d.Leaked != (doubt == "") {
					t.Errorf("cleanup of %s: leaked %v because %q, and its life: %q", id, d.Leaked, d.Reason, doubt)
				}
			}
			if w.signs[id] && doubt == "" {
				t.Errorf("cleanup of %s is not refused", id)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d: %+v\nplaces %+v, homes %+v, listed %v, recorded %v", seed, w.found.Objects, w.found.places, w.found.homes,
				slices.Collect(maps.Keys(w.listed)), w.records.allocations)
		}
	}
}

// require holds a decision to what is known of the world. kept are the addresses that a
// namespace has.
func (w *world) require(t *testing.T, d Decision, kept map[netip.Addr]bool) {
	t.Helper()
	id := d.Owner.Allocation
	if d.Leaked && (w.signs[id] || w.found.unseen != nil) {
		t.Errorf("%s of %s is leaked because %q", d.Kind, id, d.Reason)
	}
	if d.addressOnly {
		if d.Leaked && kept[d.Addresses[0]] {
			t.Errorf("the rule of %s is leaked because %q", d.Addresses[0], d.Reason)
		}
		return
	}
	unused := !slices.ContainsFunc(w.found.Objects, func(o Object) bool {
		return o.Owner.Allocation == id && slices.ContainsFunc(o.Addresses, func(a netip.Addr) bool { return kept[a] })
	})
	isDead := w.proofs[id] && unused && !w.signs[id] && w.found.unseen == nil
	ours := w.records.networks[d.Owner.Network] || d.Owner.Network == "" && d.Owner.isOurs()
	if isDead && (d.Leaked != ours || d.Orphaned == ours) {
		t.Errorf("%s of %s on %q: leaked %v, orphaned %v because %q", d.Kind, id, d.Owner.Network, d.Leaked, d.Orphaned, d.Reason)
	}
}

// TestSecondLease: that another allocation has a lease of the address, in another network's
// directory, is no proof that the namespace with the address is that one's.
func TestSecondLease(t *testing.T) {
	objects := []Object{
		{Kind: Lease, Owner: ownerOf("web", "a", "eth0"), Addresses: address("10.0.0.2")},
		{Kind: Link, Owner: ownerOf("web", "a", "")},
		{Kind: Lease, Owner: ownerOf("storage", "b", "eth0"), Addresses: address("10.0.0.2")},
	}
	records := recordSet{networks: map[string]bool{"web": true, "storage": true}}
	for name, test := range map[string]struct {
		inode uint64
		homes []home
		a, b  bool // leaked
	}{
		"whose it is, is unknown":     {7, nil, false, false},
		"it is b's":                   {7, []home{{"b", 7, "cached"}}, true, false},
		"b lives elsewhere":           {7, []home{{"b", 8, "cached"}}, false, false},
		"both are in it":              {7, []home{{"b", 7, "cached"}, {"a", 7, "cached"}}, false, false},
		"c is in it, with no address": {7, []home{{"c", 7, "cached"}}, false, false},
		"neither inode can be found":  {0, []home{{"b", 0, "cached"}}, false, false},
	} {
		places := []netns.Place{{Path: "/proc/7/ns/net", Inode: test.inode, Addresses: address("10.0.0.2")}}
		decisions, _, err := plan(&scanResult{Objects: objects, places: places, homes: test.homes}, records, NoneLive, "")
		if err != nil {
			t.Fatal(err)
		}
		if decisions[0].Leaked != test.a || decisions[1].Leaked != test.a || decisions[2].Leaked != test.b {
			t.Errorf("%s: %+v", name, decisions)
		}
	}
}

// TestWithoutProof: what shows neither life nor death is kept, unless the caller knows.
func TestWithoutProof(t *testing.T) {
	found := &scanResult{Objects: []Object{{Kind: Tuning, Owner: ownerOf("web", "a", "eth0")}}}
	records := recordSet{networks: map[string]bool{"web": true}}
	for deadID, want := range map[string]bool{"": false, "a": true, "b": false} {
		decisions, _, err := plan(found, records, NoneLive, deadID)
		if err != nil || decisions[0].Leaked != want {
			t.Errorf("dead is %q: %+v, %v, want leaked: %v", deadID, decisions, err, want)
		}
	}
}
