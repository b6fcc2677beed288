// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// Live returns who says that an allocation lives, or nothing when nobody does. A
// nil Live is unknown, which is not the same as NoneLive.
type Live func(id string) (by string)

// NoneLive is a Live for a host on which nobody but the records, and signs of
// life on the host itself, tell what lives.
func NoneLive(string) string { return "" }

// ErrLiveUnknown is a plan that was asked for without knowing which allocations
// live.
var ErrLiveUnknown = errdefs.New(errdefs.Unavailable, "it is not known which allocations live: nothing is removed")

// recordedAllocation is an allocation that allocnet has on record.
type recordedAllocation struct {
	// dead says why it is dead; empty when it lives.
	dead string
	// unknown says why it cannot be told; it counts as living then.
	unknown string
	// addresses are those that it was given.
	addresses []netip.Addr
}

// recordSet are what allocnet knows. They are to be read after the scan: then an
// allocation that is set up meanwhile is among them.
type recordSet struct {
	// networks are those of the conf directory and of the recorded
	// allocations. What others made is not touched.
	networks map[string]bool
	// orchestrated tells what the orchestrator attached itself, of which the live
	// set is complete. Nil: nothing.
	orchestrated func(Owner) bool
	// allocations are those on record, by ID.
	allocations map[string]recordedAllocation
	// graceCutoff is when it was made what is old enough to be judged by what the
	// host shows: another program may be about to attach who has a younger
	// lease. Zero: everything is.
	graceCutoff time.Time
}

// Decision is what is to become of an object.
type Decision struct {
	Object
	// Leaked is whether nobody needs it any more.
	Leaked bool `json:"leaked"`
	// Reason is the reason for either.
	Reason string `json:"reason"`
}

// plan tells for every object whether it is leaked, and why. It looks at
// nothing but its arguments. Without a live set it is ErrLiveUnknown.
func plan(found *Found, records recordSet, live Live) ([]Decision, error) {
	if live == nil {
		return nil, ErrLiveUnknown
	}
	p := planner{found, records, live, map[netip.Addr][]Decision{}, map[string]bool{}}
	for _, o := range found.Objects {
		p.young[o.Owner.Allocation] = p.young[o.Owner.Allocation] || !records.graceCutoff.IsZero() && o.Created.After(records.graceCutoff)
	}
	decisions := make([]Decision, len(found.Objects))
	for i, o := range found.Objects {
		if o.addressOnly {
			continue
		}
		decisions[i] = p.classify(o)
		for _, address := range o.Addresses {
			p.claims[address] = append(p.claims[address], decisions[i])
		}
	}
	p.claimRecorded()
	for i, o := range found.Objects {
		if o.addressOnly {
			decisions[i] = p.classifyByAddress(o)
		}
	}
	return decisions, nil
}

type planner struct {
	found   *Found
	records recordSet
	live    Live
	// claims are the decisions on what says that an address is its owner's.
	claims map[netip.Addr][]Decision
	// young are the allocations with something that was made since graceCutoff.
	young map[string]bool
}

func (p *planner) claimRecorded() {
	for id, r := range p.records.allocations {
		owner := Object{Owner: Owner{Allocation: id}}
		for _, address := range r.addresses {
			p.claims[address] = append(p.claims[address], Decision{owner, r.dead != "", r.dead})
		}
	}
}

func (p *planner) classify(o Object) Decision {
	keep := func(format string, a ...any) Decision { return Decision{o, false, fmt.Sprintf(format, a...)} }
	id, network := o.Owner.Allocation, o.Owner.Network
	recorded, known := p.records.allocations[id]
	switch {
	case id == "":
		return keep("its owner is unknown")
	case p.live(id) != "":
		return keep("its allocation lives: %s", p.live(id))
	case known && recorded.unknown != "":
		return keep("it is unknown whether its allocation lives: %s", recorded.unknown)
	case known && recorded.dead == "":
		return keep("its allocation is on record and lives")
	case known:
		return Decision{o, true, recorded.dead}
	case p.found.alive[id] != "":
		return keep("its allocation shows a sign of life: %s", p.found.alive[id])
	case network == "":
		return keep("its network is unknown")
	case !p.records.networks[network] && (p.records.orchestrated == nil || !p.records.orchestrated(o.Owner)):
		return keep("network %q is none of ours", network)
	}
	if p.young[id] {
		return keep("its allocation has a lease that was given out only now")
	}
	if address, where, used := p.used(o); used {
		return keep("its address %s is in use in %s", address, where)
	}
	return Decision{o, true, "no allocation of that ID lives or is on record"}
}

// used tells whether an address of the object is in some namespace. That one is
// another allocation's when the lease says so.
func (p *planner) used(o Object) (address netip.Addr, where string, used bool) {
	for _, address := range o.Addresses {
		where, used := p.found.inUse[address]
		if used && !p.leasedToAnother(address, o.Owner.Allocation) {
			return address, where, true
		}
	}
	return address, "", false
}

func (p *planner) leasedToAnother(address netip.Addr, id string) bool {
	return slices.ContainsFunc(p.found.Objects, func(o Object) bool {
		return o.Kind == Lease && o.Owner.Allocation != id && slices.Contains(o.Addresses, address)
	})
}

// classifyByAddress is for what names nobody but an address: it is leaked when
// something else proves that the address was a dead allocation's, and nothing
// says that it is anybody's now.
func (p *planner) classifyByAddress(o Object) Decision {
	address := o.Addresses[0]
	if where, used := p.found.inUse[address]; used {
		return Decision{o, false, fmt.Sprintf("address %s is in use in %s", address, where)}
	}
	dead := -1
	for i, claim := range p.claims[address] {
		if !claim.Leaked {
			o.Owner = claim.Owner
			return Decision{o, false, fmt.Sprintf("address %s: %s", address, claim.Reason)}
		}
		dead = i
	}
	if dead < 0 {
		return Decision{o, false, fmt.Sprintf("nothing tells whose address %s was", address)}
	}
	claim := p.claims[address][dead]
	o.Owner = claim.Owner
	return Decision{o, true, claim.Reason}
}
