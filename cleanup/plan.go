// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"fmt"
	"net/netip"
	"slices"
)

// Decision is whether to remove an object, and why.
type Decision struct {
	Object
	// Leaked is whether its allocation is dead.
	Leaked bool `json:"leaked"`
	// Reason is why it is leaked or kept.
	Reason string `json:"reason"`
}

// plan decides for every object whether it is leaked. It is a pure function.
// Without a live set the error is ErrLiveUnknown.
func plan(found *scanResult, records recordSet, live Live) ([]Decision, error) {
	if live == nil {
		return nil, ErrLiveUnknown
	}
	p := planner{found, records, live, map[netip.Addr][]Decision{}, map[string]bool{}}
	for _, o := range found.Objects {
		p.recent[o.Owner.Allocation] = p.recent[o.Owner.Allocation] || records.isRecent(o)
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
	found   *scanResult
	records recordSet
	live    Live
	// claims are the decisions on the objects that name an address and an owner.
	claims map[netip.Addr][]Decision
	// recent are the allocations with objects that were made within the grace period.
	recent map[string]bool
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
	id := o.Owner.Allocation
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
	case p.records.ended[id]:
		return keep("its allocation was torn down during the scan")
	case p.found.alive[id] != "":
		return keep("its allocation has liveness evidence: %s", p.found.alive[id])
	case o.Kind == ResolvConf: // ours, of no network
	case len(o.candidates()) == 0:
		return keep("its network is unknown")
	case p.foreign(o) != "":
		return keep("network %q is neither configured nor recorded here", p.foreign(o))
	}
	if p.recent[id] {
		return keep("its allocation has a lease within the grace period")
	}
	if address, where, used := p.used(o); used {
		return keep("its address %s is in use in %s", address, where)
	}
	return Decision{o, true, "no allocation of that ID lives or is on record"}
}

// foreign returns a network that the object can belong to and whose objects are not examined
// here; empty if there is none.
func (p *planner) foreign(o Object) string {
	for _, network := range o.candidates() {
		owner := o.Owner
		owner.Network = network
		if !p.records.networks[network] && (p.records.orchestrated == nil || !p.records.orchestrated(owner)) {
			return network
		}
	}
	return ""
}

// used tells whether an address of the object is in use in some namespace. Use by
// an allocation that has the lease does not count.
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

// classifyByAddress decides on an object that names an address only. It is leaked
// if another object or a record proves that the address was a dead allocation's,
// and no namespace or live allocation has the address now.
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
		return Decision{o, false, fmt.Sprintf("the owner of address %s is unknown", address)}
	}
	claim := p.claims[address][dead]
	o.Owner = claim.Owner
	return Decision{o, true, claim.Reason}
}
