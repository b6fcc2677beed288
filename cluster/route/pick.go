// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// next is where packets to a block are sent.
type next struct {
	via    netip.Addr
	device string
	mode   ipam.Mode
	onlink bool
	// source is the address of this host's own packets. Not valid: the kernel chooses.
	source netip.Addr
	// mac is that of the other host's VXLAN device; empty in the mode routed.
	mac string
}

type pick struct {
	Route
	next
	entry     entry
	neighbour neighbour
	forward   forward
}

type chooser struct {
	pool Pool
	own  []netip.Prefix
	// local is where this host's VXLAN device sends from.
	local  netip.Addr
	have   *snapshot
	lookup func(netip.Addr) (hop, error)

	// What choose looks up for each target: routes of others, those to networks in the pool's subnets, the
	// interfaces of this host's addresses, and the hosts whose addresses are in the subnets.
	foreign  map[netip.Prefix]entry
	networks []entry
	owners   map[netip.Addr]string
	within   []Target
	// overlap is why the pool gets no routes at all. Empty: it gets some.
	overlap string
	// sources are the addresses of this host's own packets into the VXLAN, of IPv4 (true) and IPv6:
	// the device has none, and the kernel would choose one of any interface, such as a gateway's.
	sources map[bool]netip.Addr
}

// index prepares what is looked up for each target: there are many.
func (c *chooser) index(targets []Target) {
	c.foreign, c.owners = map[netip.Prefix]entry{}, map[netip.Addr]string{}
	for _, e := range c.have.routes {
		if _, ok := c.foreign[e.prefix]; !ok && !e.ours {
			c.foreign[e.prefix] = e
			if c.pool.divides(e.prefix) {
				c.networks = append(c.networks, e)
			}
		}
	}
	for _, own := range c.have.addresses {
		c.owners[own.Addr] = own.device
	}
	for _, t := range targets {
		if c.pool.has(t.Endpoint.Address) {
			c.within = append(c.within, t)
		}
	}
	c.overlap = c.overlaps()
	c.sources = map[bool]netip.Addr{c.local.Is4(): c.local}
	for _, own := range c.have.addresses {
		present, ok := c.sources[own.Is4()]
		if own.lasting && own.device == c.owners[c.local] && (!ok || present != c.local && own.Less(present)) {
			c.sources[own.Is4()] = own.Addr
		}
	}
}

// overlaps returns what of this host is in the subnets of the pool: packets to what it reaches there would
// not arrive any more. Allocations have the gateways, and addresses of the host's own blocks.
func (c *chooser) overlaps() string {
	if c.pool.has(c.local) {
		return fmt.Sprintf("%s, at which other hosts reach this one", c.local)
	}
	for _, own := range c.have.addresses {
		given := slices.ContainsFunc(c.own, func(b netip.Prefix) bool { return b.Contains(own.Addr) })
		if c.pool.has(own.Addr) && !given && !slices.Contains(c.pool.Gateways, own.Addr) {
			return fmt.Sprintf("%s of this host's interface %s", own.Addr, own.device)
		}
	}
	for _, g := range c.have.gateways {
		if c.pool.has(g) {
			return fmt.Sprintf("%s, this host's default gateway", g)
		}
	}
	return ""
}

// closed are the subnets of which the host reaches nothing but blocks.
func (c *chooser) closed() []netip.Prefix {
	if c.overlap != "" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.pool.Subnets), func(s netip.Prefix) bool {
		return slices.ContainsFunc(c.within, func(t Target) bool { return s.Contains(t.Endpoint.Address) })
	})
}

func (c *chooser) choose(targets []Target) []pick {
	c.index(targets)
	seen := map[netip.Prefix]bool{}
	picks := make([]pick, 0, len(targets))
	for _, t := range targets {
		k := c.pick(t)
		if k.State == Installed && seen[t.Block] {
			k.State, k.Reason = Refused, "another target has the block"
		}
		seen[t.Block] = true
		picks = append(picks, k)
	}
	nodes := nodesOf(picks, c.have.forwards)
	for i := range picks {
		if k := &picks[i]; k.isOverlay() {
			k.refuse(nodes.refuse(k.forward))
		}
	}
	return picks
}

func (c *chooser) pick(t Target) pick {
	k := pick{Route: Route{Block: t.Block, Node: t.Node, State: Installed}}
	reason := c.refuse(t)
	if reason == "" && t.Endpoint.Address == c.local {
		k.State, k.Reason = Replaced, fmt.Sprintf("the address %s is this host's by now", c.local)
		return k
	}
	if reason == "" {
		k.next, reason = c.next(t)
	}
	k.Via, k.Device, k.Mode = k.via, k.device, k.mode
	k.refuse(reason)
	if k.State != Installed {
		return k
	}
	k.entry = entryTo(t.Block, k.next)
	if k.mac != "" {
		k.neighbour = neighbour{k.device, k.via, k.mac}
		k.forward = forward{k.device, k.mac, t.Endpoint.Address}
	}
	if e, ok := c.foreign[t.Block]; ok {
		k.State, k.Reason = Conflict, fmt.Sprintf("the host has another %s: remove it", e)
	}
	return k
}

// isOverlay is whether the target is reached through the VXLAN device.
func (k *pick) isOverlay() bool { return k.State == Installed && k.mac != "" }

// refuse refuses a target for a reason, if there is one.
func (k *pick) refuse(reason string) {
	if reason != "" {
		k.State, k.Reason = Refused, reason
	}
}

// refuse returns why a target is not safe: other hosts wrote it.
func (c *chooser) refuse(t Target) string {
	a := t.Endpoint.Address
	within := func(p netip.Prefix) bool { return p.Bits() <= t.Block.Bits() && p.Contains(t.Block.Addr()) }
	switch {
	case c.overlap != "":
		return "the pool's subnets have " + c.overlap
	case t.Block != t.Block.Masked() || !slices.ContainsFunc(c.pool.Subnets, within):
		return fmt.Sprintf("the block is not in the subnets %s of the pool", c.pool.Subnets)
	case t.Block.Bits() != c.pool.blockBits(t.Block):
		return fmt.Sprintf("the block is no /%d, as all blocks of the pool are", c.pool.blockBits(t.Block))
	case slices.ContainsFunc(c.own, t.Block.Overlaps):
		return "the block is this host's own"
	}
	if err := t.Endpoint.Validate(); err != nil {
		return err.Error()
	}
	switch own := c.owners[a]; {
	case own != "" && a != c.local:
		return fmt.Sprintf("the address %s is this host's, on %s", a, own)
	case c.pool.has(a):
		return fmt.Sprintf("the address %s is in the pool", a)
	case c.owners[t.Endpoint.LinkLocal] != "":
		return fmt.Sprintf("the address %s is this host's", t.Endpoint.LinkLocal)
	}
	return c.covers(t.Block)
}

// covers returns what a route to the block would divert: other hosts, or networks of this one.
func (c *chooser) covers(block netip.Prefix) string {
	for _, t := range c.within {
		if block.Contains(t.Endpoint.Address) {
			return fmt.Sprintf("the block has the address %s of the node %s", t.Endpoint.Address, t.Node)
		}
	}
	for _, e := range c.networks {
		if e.prefix.Overlaps(block) {
			return fmt.Sprintf("the block is a part of the network of this host's %s", e)
		}
	}
	return ""
}

// next returns how a target is reached in the pool's mode, or why it is not.
func (c *chooser) next(t Target) (next, string) {
	if c.pool.Mode == ipam.ModeVXLAN {
		return c.overlay(t)
	}
	n, reason := c.direct(t)
	if l := c.have.link(n.device); c.pool.Mode == ipam.ModeAuto && (reason != "" || l != nil && l.hasEnd) {
		return c.overlay(t)
	}
	return n, reason
}

// direct is for hosts on a common link.
func (c *chooser) direct(t Target) (next, string) {
	e := t.Endpoint
	h, err := c.lookup(e.Address)
	if err != nil {
		return next{}, fmt.Sprintf("no route to %s: %v", e.Address, err)
	}
	n := next{via: e.Address, device: h.device, mode: ipam.ModeRouted}
	switch l := c.have.link(h.device); {
	case h.gateway.IsValid():
		return n, fmt.Sprintf("%s is not on a link of this host, but behind %s: use the mode vxlan or auto", e.Address, h.gateway)
	case l == nil || l.hasOurAlias():
		return n, fmt.Sprintf("%s is reached through %q, which is no link to other hosts", e.Address, h.device)
	case t.Block.Addr().Is6() && e.Address.Is4():
		if n.via = e.LinkLocal; !n.via.IsValid() {
			return n, fmt.Sprintf("the node has the IPv4 address %s and no link-local IPv6 address: want one, as next hop of IPv6 blocks", e.Address)
		}
	}
	return n, ""
}

// overlay is for hosts that are reached through the VXLAN device.
func (c *chooser) overlay(t Target) (next, string) {
	e := t.Endpoint
	mac := deviceMAC(e.Address, c.pool.Name) // not what the store says
	n := next{device: deviceName(c.pool.Name), mode: ipam.ModeVXLAN, via: linkLocalOf(mac), mac: mac, source: c.sources[t.Block.Addr().Is4()]}
	switch {
	case e.MAC == "":
		return n, "the node has no VXLAN device: see its agent's log"
	case e.Address.Is4() != c.local.Is4():
		return n, fmt.Sprintf("the address %s of the node and %s of this host are of two families", e.Address, c.local)
	case t.Block.Addr().Is4() && e.Address.Is4():
		n.via, n.onlink = e.Address, true
	}
	return n, ""
}

// nodes are the addresses of other hosts by the MACs of their VXLAN devices. The MACs are derived, but who
// chooses among enough IPv6 addresses finds one with the MAC of another host, and would get its packets.
type nodes map[string]netip.Addr

// nodesOf returns one host for each MAC: the one whose packets are sent there now, else the first that
// was picked.
func nodesOf(picks []pick, installed []forward) nodes {
	n := nodes{}
	before := map[forward]bool{}
	for _, f := range installed {
		before[f] = true
	}
	for _, first := range []bool{true, false} {
		for i := range picks {
			k := &picks[i]
			if _, taken := n[k.forward.mac]; !taken && k.isOverlay() && before[k.forward] == first {
				n[k.forward.mac] = k.forward.to
			}
		}
	}
	return n
}

// refuse returns whose MAC a forward has, if that is another host's.
func (n nodes) refuse(f forward) string {
	if n[f.mac] != f.to {
		return fmt.Sprintf("the MAC %s of its VXLAN device is also that of the node %s", f.mac, n[f.mac])
	}
	return ""
}
