// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"fmt"
	"net/netip"
)

// Decision is whether to remove an object, and why.
type Decision struct {
	Object
	// Leaked is whether its allocation is dead, and its network one whose objects are removed.
	Leaked bool `json:"leaked"`
	// Orphaned is whether its allocation is dead, and its network unknown, or not one whose
	// objects are removed unasked: to clean up after the allocation removes it.
	Orphaned bool `json:"orphaned,omitempty"`
	// Reason is why it is leaked or kept.
	Reason string `json:"reason"`
}

// plan decides for every object whether it is leaked. It is a pure function. deadID is the
// allocation of any network that the caller knows to be dead, empty for none; doubt says why it
// is not. Without a live set the error is ErrLiveUnknown.
func plan(found *scanResult, records recordSet, live Live, deadID string) (decisions []Decision, doubt string, err error) {
	if live == nil {
		return nil, "", ErrLiveUnknown
	}
	p := planner{newWitness(found, records, live, deadID), map[string]Decision{}, map[netip.Addr][]Decision{}}
	decisions = make([]Decision, len(found.Objects))
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
	if d := p.owner(deadID); deadID != "" && !d.Leaked {
		doubt = d.Reason
	}
	return decisions, doubt, nil
}

type planner struct {
	*witness
	// owners are the decisions on allocations, without an object.
	owners map[string]Decision
	// claims are the decisions on the objects that name an address and an owner.
	claims map[netip.Addr][]Decision
}

func (p *planner) claimRecorded() {
	for id, r := range p.records.allocations {
		d := p.owner(id)
		d.Owner.Allocation = id
		for _, address := range r.addresses {
			p.claims[address] = append(p.claims[address], d)
		}
	}
}

// owner decides on an allocation, once for all of its objects.
func (p *planner) owner(id string) Decision {
	d, known := p.owners[id]
	if !known {
		life, reason := p.of(id).life()
		d = Decision{Leaked: life == dead, Reason: reason}
		p.owners[id] = d
	}
	return d
}

func (p *planner) classify(o Object) Decision {
	id := o.Owner.Allocation
	if id == "" {
		return Decision{Object: o, Reason: "its owner is unknown"}
	}
	d := p.owner(id)
	d.Object = o
	if why := p.notRemoved(o); d.Leaked && why != "" {
		d.Leaked, d.Orphaned, d.Reason = false, true, why+": to remove it: allocnet cleanup "+id
	}
	return d
}

// notRemoved says why objects of a network are not removed unasked; empty if they are.
func (p *planner) notRemoved(o Object) string {
	switch {
	case o.Kind == ResolvConf || o.Owner.Allocation == p.dead: // ours, of no network; of any network
		return ""
	case len(o.Networks()) == 0 && !o.Owner.isOurs():
		return "its network is unknown"
	}
	for _, network := range o.Networks() {
		owner := o.Owner
		owner.Network = network
		if !p.records.networks[network] && !p.records.isOrchestrated(owner) {
			return fmt.Sprintf("network %q is neither configured nor recorded here", network)
		}
	}
	return ""
}

// classifyByAddress decides on an object that names an address only. It is leaked
// if another object or a record proves that the address was a dead allocation's,
// and no namespace or live allocation has the address now.
func (p *planner) classifyByAddress(o Object) Decision {
	address := o.Addresses[0]
	if users := p.users[address]; len(users) > 0 {
		return Decision{Object: o, Reason: fmt.Sprintf("address %s is in use in %s", address, users[0].Path)}
	}
	if p.found.unseen != nil {
		return Decision{Object: o, Reason: fmt.Sprintf("address %s may be in use where nothing can be seen", address)}
	}
	claims := p.claims[address]
	for _, claim := range claims {
		if !claim.Leaked {
			o.Owner = claim.Owner
			return Decision{Object: o, Orphaned: claim.Orphaned, Reason: fmt.Sprintf("address %s: %s", address, claim.Reason)}
		}
	}
	if len(claims) == 0 {
		return Decision{Object: o, Reason: fmt.Sprintf("the owner of address %s is unknown", address)}
	}
	claim := claims[len(claims)-1]
	o.Owner = claim.Owner
	return Decision{Object: o, Leaked: true, Reason: claim.Reason}
}
