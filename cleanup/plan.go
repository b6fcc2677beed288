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
// nil Live is unknown, which is not the same as NobodyElse.
type Live func(id string) (by string)

// NobodyElse is a Live for a host on which nobody but the records, and signs of
// life on the host itself, tell what lives.
func NobodyElse(string) string { return "" }

// ErrLiveUnknown is a plan that was asked for without knowing which allocations
// live.
var ErrLiveUnknown = errdefs.New(errdefs.Unavailable, "it is not known which allocations live: nothing is removed")

// Recorded is an allocation that allocnet has on record.
type Recorded struct {
	// Dead says why it is dead; empty when it lives.
	Dead string
	// Unknown says why it cannot be told; it counts as living then.
	Unknown string
	// Addresses are those that it was given.
	Addresses []netip.Addr
}

// Records are what allocnet knows. They are to be read after the scan: then an
// allocation that is set up meanwhile is among them.
type Records struct {
	// Networks are those of the conf directory and of the recorded
	// allocations. What others made is not touched.
	Networks map[string]bool
	// Orchestrated tells what the orchestrator attached itself, of which the live
	// set is complete. Nil: nothing.
	Orchestrated func(Owner) bool
	// Allocations are those on record, by ID.
	Allocations map[string]Recorded
	// Settled is when it was made what is old enough to be judged by what the
	// host shows: another program may be about to attach who has a younger
	// lease. Zero: everything is.
	Settled time.Time
}

// Verdict is what is to become of an object.
type Verdict struct {
	Object
	// Leaked is whether nobody needs it any more.
	Leaked bool `json:"leaked"`
	// Why is the reason for either.
	Why string `json:"why"`
}

// Plan tells for every object whether it is leaked, and why. It looks at
// nothing but its arguments. Without a live set it is ErrLiveUnknown.
func Plan(found *Found, records Records, live Live) ([]Verdict, error) {
	if live == nil {
		return nil, ErrLiveUnknown
	}
	p := planner{found, records, live, map[netip.Addr][]Verdict{}, map[string]bool{}}
	for _, o := range found.Objects {
		p.young[o.Owner.Allocation] = p.young[o.Owner.Allocation] || !records.Settled.IsZero() && o.Made.After(records.Settled)
	}
	verdicts := make([]Verdict, len(found.Objects))
	for i, o := range found.Objects {
		if o.Kind == Firewall {
			continue
		}
		verdicts[i] = p.judge(o)
		for _, address := range o.Addresses {
			p.claims[address] = append(p.claims[address], verdicts[i])
		}
	}
	p.claimRecorded()
	for i, o := range found.Objects {
		if o.Kind == Firewall {
			verdicts[i] = p.judgeAddress(o)
		}
	}
	return verdicts, nil
}

type planner struct {
	found   *Found
	records Records
	live    Live
	// claims are the verdicts on what says that an address is its owner's.
	claims map[netip.Addr][]Verdict
	// young are the allocations with something that was made since Settled.
	young map[string]bool
}

func (p *planner) claimRecorded() {
	for id, r := range p.records.Allocations {
		owner := Object{Owner: Owner{Allocation: id}}
		for _, address := range r.Addresses {
			p.claims[address] = append(p.claims[address], Verdict{owner, r.Dead != "", r.Dead})
		}
	}
}

func (p *planner) judge(o Object) Verdict {
	keep := func(format string, a ...any) Verdict { return Verdict{o, false, fmt.Sprintf(format, a...)} }
	id, network := o.Owner.Allocation, o.Owner.Network
	recorded, known := p.records.Allocations[id]
	switch {
	case id == "":
		return keep("its owner is unknown")
	case p.live(id) != "":
		return keep("its allocation lives: %s", p.live(id))
	case known && recorded.Unknown != "":
		return keep("it is unknown whether its allocation lives: %s", recorded.Unknown)
	case known && recorded.Dead == "":
		return keep("its allocation is on record and lives")
	case known:
		return Verdict{o, true, recorded.Dead}
	case p.found.Alive[id] != "":
		return keep("its allocation shows a sign of life: %s", p.found.Alive[id])
	case network == "":
		return keep("its network is unknown")
	case !p.records.Networks[network] && (p.records.Orchestrated == nil || !p.records.Orchestrated(o.Owner)):
		return keep("network %q is none of ours", network)
	}
	if p.young[id] {
		return keep("its allocation has a lease that was given out only now")
	}
	if address, where, used := p.used(o); used {
		return keep("its address %s is in use in %s", address, where)
	}
	return Verdict{o, true, "no allocation of that ID lives or is on record"}
}

// used tells whether an address of the object is in some namespace. That one is
// another allocation's when the lease says so.
func (p *planner) used(o Object) (address netip.Addr, where string, used bool) {
	for _, address := range o.Addresses {
		where, used := p.found.InUse[address]
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

// judgeAddress is for what names nobody but an address: it is leaked when
// something else proves that the address was a dead allocation's, and nothing
// says that it is anybody's now.
func (p *planner) judgeAddress(o Object) Verdict {
	address := o.Addresses[0]
	if where, used := p.found.InUse[address]; used {
		return Verdict{o, false, fmt.Sprintf("address %s is in use in %s", address, where)}
	}
	dead := -1
	for i, claim := range p.claims[address] {
		if !claim.Leaked {
			o.Owner = claim.Owner
			return Verdict{o, false, fmt.Sprintf("address %s: %s", address, claim.Why)}
		}
		dead = i
	}
	if dead < 0 {
		return Verdict{o, false, fmt.Sprintf("nothing tells whose address %s was", address)}
	}
	claim := p.claims[address][dead]
	o.Owner = claim.Owner
	return Verdict{o, true, claim.Why}
}
