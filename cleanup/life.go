// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// life is whether an allocation lives. The zero value keeps its objects, as a live one does.
type life int

const (
	unknown life = iota
	alive
	dead
)

// evidence is all that is known of the life of one allocation. Empty fields are none.
type evidence struct {
	// listed is the source that lists it as live.
	listed string
	// recorded is what the record says; nil: it is not on record.
	recorded *recordedAllocation
	// ended is whether its record was removed during the scan.
	ended bool
	// home is a namespace of its own that exists.
	home string
	// used is an address of its objects, and the namespace that has it.
	used string
	// unseen is why not all namespaces could be looked into.
	unseen string
	// recent is whether an object was made within the grace period.
	recent bool
	// proof is whether anything shows that it is dead: to show no life is not enough.
	proof bool
}

// life decides for all objects of the allocation. It is a pure function. The record knows: it
// was made before the objects, and tells an interrupted set-up from a live allocation. Without
// it, any liveness evidence is enough, and death has to be proven.
func (e evidence) life() (life, string) {
	switch {
	case e.listed != "":
		return alive, "its allocation lives: " + e.listed
	case e.recorded != nil && e.recorded.unknown != "":
		return unknown, "it is unknown whether its allocation lives: " + e.recorded.unknown
	case e.recorded != nil && e.recorded.dead != "":
		return dead, e.recorded.dead
	case e.recorded != nil:
		return alive, "its allocation is on record and lives"
	case e.ended:
		return unknown, "its allocation was torn down during the scan"
	case e.home != "":
		return alive, "its allocation has liveness evidence: " + e.home
	case e.used != "":
		return alive, "its address " + e.used
	case e.unseen != "":
		return unknown, "its allocation may live where nothing can be seen: " + e.unseen
	case e.recent:
		return unknown, "its allocation has a lease within the grace period"
	case !e.proof:
		return unknown, "nothing proves that its allocation is dead"
	}
	return dead, "no allocation of that ID lives or is on record"
}

// home is a namespace that is known to be of an allocation.
type home struct {
	allocation string
	// inode is that of the namespace; 0 if it is not known.
	inode uint64
	// why says what shows it.
	why string
}

// homesIn returns those of the allocations after which the mounts are named.
func homesIn(places []netns.Place) []home {
	var homes []home
	for _, place := range places {
		for _, mount := range place.Mounts {
			homes = append(homes, home{filepath.Base(mount), place.Inode, "namespace " + mount})
		}
	}
	return homes
}

// witness collects the evidence of one plan, by allocation.
type witness struct {
	found   *scanResult
	records recordSet
	live    Live
	// dead is the allocation that the caller knows to be dead; empty: none.
	dead      string
	addresses map[string][]netip.Addr
	users     map[netip.Addr][]netns.Place
	homes     map[string]string
	residents map[uint64][]string
	recent    map[string]bool
	proofs    map[string]bool
}

func newWitness(found *scanResult, records recordSet, live Live, deadID string) *witness {
	w := &witness{
		found: found, records: records, live: live, dead: deadID, addresses: map[string][]netip.Addr{},
		users: map[netip.Addr][]netns.Place{}, homes: map[string]string{}, residents: map[uint64][]string{},
		recent: map[string]bool{}, proofs: map[string]bool{},
	}
	for _, place := range found.places {
		for _, address := range place.Addresses {
			w.users[address] = append(w.users[address], place)
		}
	}
	for _, h := range slices.Concat(found.homes, homesIn(found.places)) {
		w.homes[h.allocation] = h.why
		w.residents[h.inode] = append(w.residents[h.inode], h.allocation)
	}
	for id, r := range records.allocations {
		w.addresses[id] = slices.Clone(r.addresses)
		w.residents[r.inode] = append(w.residents[r.inode], id)
	}
	for _, o := range found.Objects {
		if !o.addressOnly {
			w.add(o)
		}
	}
	return w
}

func (w *witness) add(o Object) {
	id := o.Owner.Allocation
	w.addresses[id] = append(w.addresses[id], o.Addresses...)
	w.recent[id] = w.recent[id] || w.records.isRecent(o)
	w.proofs[id] = w.proofs[id] || o.provesDeath || len(o.Addresses) > 0 || w.records.isOrchestrated(o.Owner)
}

func (w *witness) of(id string) evidence {
	e := evidence{
		listed: w.live(id), ended: w.records.ended[id], home: w.homes[id], used: w.used(id),
		recent: w.recent[id], proof: w.proofs[id] || id == w.dead,
	}
	if r, known := w.records.allocations[id]; known {
		e.recorded = &r
	}
	if w.found.unseen != nil {
		e.unseen = strings.ReplaceAll(w.found.unseen.Error(), "\n", "; ")
	}
	return e
}

// used returns an address of the allocation, and a namespace that has it and may be the
// allocation's.
func (w *witness) used(id string) string {
	for _, address := range w.addresses[id] {
		for _, place := range w.users[address] {
			if !w.isOfAnother(place, address) {
				return fmt.Sprintf("%s is in use in %s", address, place.Path)
			}
		}
	}
	return ""
}

// isOfAnother tells whether the namespace is known to be that of another allocation, which has
// the address: then the address was given out again. That another one has a lease of it proves
// nothing: networks have leases of the same addresses, in directories of their own. An allocation
// that is known to be in a namespace lives without that.
func (w *witness) isOfAnother(place netns.Place, address netip.Addr) bool {
	return place.Inode != 0 && slices.ContainsFunc(w.residents[place.Inode], func(other string) bool {
		return slices.Contains(w.addresses[other], address)
	})
}

// isOurs tells whether a container ID is of the form that only allocnet makes.
func (o Owner) isOurs() bool {
	return o.ContainerID != "" && state.AllocationOf(o.ContainerID) != o.ContainerID
}
