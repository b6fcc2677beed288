// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
)

// poolFacts are what a host and the store say of a pool of allocnet-ipam.
type poolFacts struct {
	Config *ipam.Config
	// Host is who this host is to the others.
	Host ipam.Host
	// Usage is what this host has, UsageUnknown is whether that cannot be read, and Unusable why it assigns no address.
	Usage        pool.Usage
	UsageUnknown bool
	Unusable     error
	// Overview is what the store has, and Unread why it is not known.
	Overview pool.Overview
	Unread   error
	// Fence is the time without verification after which no new address is assigned.
	Fence time.Duration
	// Leases have an owner for each leased address of this host. Nil: unknown.
	Leases map[netip.Addr]string
	// InUse has a namespace for each address in a namespace of this host. Nil: unknown.
	InUse map[netip.Addr]string
	// Gone are the nodes that Nomad does not know, by ID, and Unasked why that is not known of one.
	Gone    map[string]bool
	Unasked error
	// Now is the time.
	Now time.Time
}

// examinePool returns the problems of a pool. It does no I/O.
func examinePool(f poolFacts) []Finding {
	r := &Report{}
	p := poolReport{r, f, "pool " + f.Config.Pool}
	p.readiness()
	if f.Unread == nil {
		p.agreement()
		p.owners()
		p.claims()
		p.reserved()
		p.room()
	}
	p.verified()
	p.addresses()
	r.sort()
	return r.Findings
}

// poolReport adds the findings of a pool to a report.
type poolReport struct {
	*Report
	poolFacts
	subject string
}

// readiness reports why the host cannot use the pool, or the store.
func (p poolReport) readiness() {
	if p.Usage.Copied {
		p.addError(p.subject, "a copy of this machine has used the store within the last hour, and was refused", p.endCopy())
	}
	var reported []string
	for _, err := range []error{p.Unusable, p.Unread} {
		if err == nil || slices.Contains(reported, err.Error()) {
			continue
		}
		reported = append(reported, err.Error())
		switch {
		case errors.Is(err, ipam.ErrTwin):
			p.addError(p.subject, err.Error(), p.endCopy())
		case errors.Is(err, ipam.ErrMismatch):
			p.addError(p.subject, err.Error(), "give all hosts the same ranges, reserved, blockSize, mode and vxlan; ranges, and reserved prefixes beside them, may only be appended")
		case errors.Is(err, ipam.ErrNoNamespace):
			p.addError(p.subject, err.Error(), "create the namespace, or correct namespace of the block ipam in "+p.Config.ConfigDir+" on all hosts")
		case errors.Is(err, ipam.ErrRefused):
			p.addError(p.subject, err.Error(), "replace the token of the block nomad in "+p.Config.ConfigDir+", or give it the policy of docs/cluster.md: read, list, write and destroy on allocnet/ipam/*")
		case errors.Is(err, ipam.ErrFenced): // verified reports it
		case errors.Is(err, errLocked):
			p.addUnexamined(p.subject, "what this host has of it is not examined: "+err.Error(), "if the agent is stopped, let it go on: systemctl kill --signal=CONT allocnet")
		case errors.Is(err, ipam.ErrExhausted):
			p.addError(p.subject, err.Error(), "append a range, or release blocks of hosts that are gone: allocnet ipam show "+p.Config.Pool)
		case errors.Is(err, ipam.ErrUnavailable):
			add := p.addWarning
			if p.Unread != nil {
				add = p.addUnexamined
			}
			add(p.subject, err.Error(), "check the Nomad servers; addresses of the blocks that this host holds are assigned without them")
		case errors.Is(err, ipam.ErrInvalid):
			p.addError(p.subject, err.Error(), "correct the key ipam of the network")
		default:
			p.addError(p.subject, err.Error(), "correct the block ipam in "+p.Config.ConfigDir+", or the records in "+p.Config.StateDir)
		}
	}
}

func (p poolReport) endCopy() string {
	return fmt.Sprintf("on the copy: stop all allocations with addresses of the pool, then rm -r %[1]s/instance %[1]s/node.json %[1]s/pools, and delete the variables of the blocks that it has claimed", filepath.Join(p.Config.StateDir, "ipam"))
}

// agreement compares the configuration with that of the other hosts.
func (p poolReport) agreement() {
	stored, own := p.Overview.Content, p.Config.Content()
	if stored != nil && stored.Hash() != own.Hash() && !own.Extends(*stored) && !errors.Is(p.Unusable, ipam.ErrMismatch) {
		p.addError(p.subject, fmt.Sprintf("this host has the configuration %s, and the store has %s", own, *stored), "give all hosts the same ranges, reserved, blockSize, mode and vxlan")
	}
	for _, u := range p.Overview.Unknown {
		p.addError(u.Path, fmt.Sprintf("is in the store, and cannot be read (%v): what it governs counts as used", u.Err), "upgrade allocnet on this host, or delete the variable if no host uses it")
	}
}

// owners reports blocks that have two owners, and blocks that are not of the pool.
func (p poolReport) owners() {
	for i, b := range p.Overview.Blocks {
		if own, ok := p.Config.BlockOf(b.Block.Addr()); !ok || own != b.Block {
			p.addError(b.Block.String(), fmt.Sprintf("of %s is no block of pool %s", owner(b.Host), p.Config.Pool), "give that host the configuration of the others, or release its blocks: allocnet ipam release --node "+cmp.Or(b.Host.NodeID, b.Host.Instance)+" "+p.Config.Pool)
		}
		for _, other := range p.Overview.Blocks[:i] {
			if b.Block.Overlaps(other.Block) {
				p.addError(b.Block.String(), fmt.Sprintf("of %s overlaps %s of %s: both assign the same addresses", owner(b.Host), other.Block, owner(other.Host)), "stop the allocations of one of the hosts, then: allocnet ipam release --node NODE "+p.Config.Pool)
			}
		}
	}
}

// claims compares the blocks of this host with the store, and reports those of nodes that are
// gone.
func (p poolReport) claims() {
	local := map[ipam.Block]string{}
	for _, b := range p.Usage.Blocks {
		local[b.Block] = b.State
	}
	gone := map[string]int{}
	for _, b := range p.Overview.Blocks {
		state := local[b.Block]
		own := b.Host.Instance == p.Host.Instance
		switch {
		case !own && state != "" && state != "claiming":
			p.twoOwners(b.Block.String(), "is owned by "+owner(b.Host))
		case own && state == "lost":
			p.twoOwners(b.Block.String(), "was another's meanwhile")
		case !own && b.Host.NodeID != "" && b.Host.NodeID == p.Host.NodeID:
			p.addWarning(b.Block.String(), "was claimed by this host before its state directory was lost", "run the agent, which adopts the block when no namespace has one of its addresses")
		case own && state == "" && !p.UsageUnknown:
			p.addWarning(b.Block.String(), "is this host's in the store, and has no record here", "run the agent, which removes what a claim wrote too late; if a copy of this machine claimed it, stop its allocations, and: nomad var purge -namespace NAMESPACE "+ipam.BlockPath(p.Config.Pool, b.Block))
		case p.Gone[b.Host.NodeID]:
			gone[b.Host.NodeID]++
		}
	}
	for _, id := range slices.Sorted(maps.Keys(gone)) {
		p.addWarning("node "+id, fmt.Sprintf("is not known to Nomad, and owns %d blocks of pool %s", gone[id], p.Config.Pool),
			"agents reclaim them when the node has been gone for long enough; at once: allocnet ipam release --node "+id+" "+p.Config.Pool)
	}
	if p.Unasked != nil {
		p.addUnexamined(p.subject, "which nodes are gone is not examined in full: "+p.Unasked.Error(), "run allocnet doctor again, with a token that may read nodes")
	}
	p.missing(local)
}

func (p poolReport) twoOwners(subject, other string) {
	p.addError(subject, "was this host's, and "+other+": both may have assigned the same addresses",
		"stop the allocations of this host that have its addresses: allocnet status --json")
}

// missing reports blocks of this host that the store does not have.
func (p poolReport) missing(local map[ipam.Block]string) {
	for _, b := range p.Overview.Blocks {
		delete(local, b.Block)
	}
	for _, b := range slices.SortedFunc(maps.Keys(local), netip.Prefix.Compare) {
		if local[b] == "held" {
			p.addError(b.String(), "is held by this host, and missing in the store: another host may claim it", "run the agent, which creates it again")
		}
	}
}

// reserved reports reserved addresses outside of the configuration, and those of which this
// host has a lease and another is the holder.
func (p poolReport) reserved() {
	own := map[netip.Addr]bool{}
	for _, a := range p.Usage.Reserved {
		own[a] = true
	}
	for _, a := range p.Overview.Addresses {
		switch {
		case !p.Config.IsReserved(a.Address):
			p.addError(a.Address.String(), fmt.Sprintf("is held by %s, and is no reserved address of pool %s", owner(a.Host), p.Config.Pool), "give that host the configuration of the others")
		case a.State == ipam.Held && !own[a.Address] && a.Host.Instance == p.Host.Instance && p.Usage.Copied:
			p.addWarning(a.Address.String(), "is this host's in the store, and has no lease here", "if the copy of this machine took it, stop its allocations, and: nomad var purge -namespace NAMESPACE "+ipam.AddressPath(p.Config.Pool, a.Address))
		case a.State == ipam.Held && own[a.Address] && a.Host.Instance != p.Host.Instance:
			p.twoOwners(a.Address.String(), "is owned by "+owner(a.Host))
		case a.State == ipam.Held && p.Gone[a.Host.NodeID]:
			p.addWarning(a.Address.String(), fmt.Sprintf("is held by node %s, which Nomad does not know", a.Host.NodeID), "allocnet ipam release --node "+a.Host.NodeID+" "+p.Config.Pool)
		}
	}
}

// room reports a pool whose blocks are nearly all claimed, and families of this host without
// free addresses.
func (p poolReport) room() {
	for _, family := range p.Config.BlockFamilies() {
		claimed := uint64(0)
		for _, b := range p.Overview.Blocks {
			if ipam.FamilyOf(b.Block.Addr()) == family {
				claimed++
			}
		}
		if total := p.Config.Slots(family).Count(); total > 1 && claimed >= total-total/10 {
			p.addWarning(p.subject, fmt.Sprintf("%d of %d IPv%d blocks are claimed", claimed, total, family), "append a range, or release blocks of hosts that are gone: allocnet ipam show "+p.Config.Pool)
		}
	}
	for _, f := range p.Usage.Families {
		if f.Used > 0 && f.Free*10 < f.Used+f.Cooling+f.Free {
			p.addWarning(p.subject, fmt.Sprintf("this host has %d free IPv%d addresses: %d are in use, and %d were freed less than the cooldown ago", f.Free, f.Family, f.Used, f.Cooling),
				"run the agent, which claims blocks ahead; if all are claimed, append a range")
		}
	}
}

// agentPause is more than the time between two verifications of an agent.
const agentPause = 5 * time.Minute

func (p poolReport) verified() {
	age := p.Now.Sub(p.Usage.Verified)
	switch {
	case len(p.Usage.Blocks) == 0:
	case p.Usage.Fenced:
		p.addError(p.subject, p.Usage.Closed.Error()+": this host assigns no new address", "run the agent, and check its connection to the store")
	case age >= p.Fence/2:
		p.addError(p.subject, fmt.Sprintf("the blocks of this host were not verified for %s: in %s it assigns no new address", age.Round(time.Minute), max(0, p.Fence-age).Round(time.Minute)), "run the agent, and check its connection to the store")
	case age >= agentPause:
		p.addWarning(p.subject, fmt.Sprintf("the blocks of this host were not verified for %s: no agent maintains the pool", age.Round(time.Minute)), "systemctl enable --now allocnet")
	}
}

// addresses compares the leases of this host with its namespaces.
func (p poolReport) addresses() {
	if p.InUse == nil || p.Leases == nil {
		return
	}
	for _, a := range slices.SortedFunc(maps.Keys(p.InUse), netip.Addr.Compare) {
		if (p.Config.Usable(a) || p.Config.IsReserved(a)) && p.Leases[a] == "" {
			p.addError(a.String(), fmt.Sprintf("is configured in %s without a lease of pool %s: it may be assigned again", p.InUse[a], p.Config.Pool), "stop the allocation in this namespace, or remove the address from this interface of the host")
		}
	}
	for _, a := range slices.SortedFunc(maps.Keys(p.Leases), netip.Addr.Compare) {
		if p.InUse[a] == "" {
			p.addWarning(a.String(), fmt.Sprintf("is leased to %s, and no namespace has it, nor an interface of the host", p.Leases[a]), "allocnet gc, unless the allocation is being set up")
		}
	}
}

func owner(h ipam.Host) string {
	return cmp.Or(strings.TrimSpace(h.NodeName+" "+h.NodeID), "instance "+h.Instance)
}
