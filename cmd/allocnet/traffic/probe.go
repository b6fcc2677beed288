// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package traffic

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/echo"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/state"
)

type outcome string

const (
	works  outcome = "ok"
	failed outcome = "failed"
	// skipped is what was not probed, or is not to work.
	skipped outcome = "skipped"
)

// probe is something that an allocation is to reach, or by which it is to be reached.
type probe struct {
	Allocation string  `json:"allocation"`
	Interface  string  `json:"interface,omitempty"`
	Network    string  `json:"network,omitempty"`
	Kind       string  `json:"probe"`
	Target     string  `json:"target,omitempty"`
	Outcome    outcome `json:"outcome"`
	// Detail is why it failed or was skipped, or how long it took.
	Detail string `json:"detail,omitempty"`
	// Next is the next thing to look at.
	Next string `json:"next,omitempty"`

	// What is done is the first of these that is set; nothing for a probe that is skipped.
	echo    *echo.Request
	dns     netip.Addr
	connect *published
}

// published is a port of the host, and where it leads to in the allocation.
type published struct{ host, inside netip.AddrPort }

// mostNeighbours is how many of a network are asked.
const mostNeighbours = 3

// prober lists what there is to probe.
type prober struct {
	traffic
	// own are the addresses of this host, and outward those of them that others reach it by, first.
	own, outward []netip.Addr
	// networks are those of the CNI configuration directories.
	networks []*cniconf.Network
}

func (p *prober) probes(a *hook.Allocation) (all []*probe) {
	for _, n := range a.Attachments {
		if n.Phase != state.Attached {
			detail := string(n.Phase)
			if n.Missing != "" {
				detail += ": " + n.Missing
			}
			all = append(all, &probe{Allocation: a.ID, Interface: n.Interface, Network: n.Network, Kind: "attachment", Outcome: failed, Detail: detail, Next: "allocnet check " + a.ID})
			continue
		}
		gateways, neighbours := p.gateways(a, n), p.neighbours(a, n)
		all = append(append(all, gateways...), neighbours...)
		all = append(all, p.mtu(a, n, slices.Concat(gateways, neighbours)))
		all = append(all, p.ports(a, n)...)
	}
	return append(all, p.servers(a)...)
}

func on(a *hook.Allocation, n hook.Attachment, kind, target string) *probe {
	return &probe{Allocation: a.ID, Interface: n.Interface, Network: n.Network, Kind: kind, Target: target}
}

func (r *probe) skip(why string) *probe {
	r.Outcome, r.Detail = skipped, why
	return r
}

// gateways are those of default routes, else those that the host has in the subnets of the network.
func (p *prober) gateways(a *hook.Allocation, n hook.Attachment) (all []*probe) {
	targets := slices.Clone(n.Gateways)
	if len(targets) == 0 {
		targets = p.hostGateways(n)
	}
	if len(targets) == 0 {
		return []*probe{on(a, n, "gateway", "").skip("the network has none")}
	}
	for _, target := range targets {
		r := on(a, n, "gateway", target.String())
		if target.IsLinkLocalUnicast() && target.Is6() {
			target = target.WithZone(n.Interface)
		}
		r.Next = fmt.Sprintf("allocnet check %s, then allocnet capture %s %s", a.ID, a.ID, n.Interface)
		all = append(all, p.ping(r, a, n, p.elsewhere(target), echo.Request{Target: target, Device: n.Interface}))
	}
	return all
}

func (p *prober) hostGateways(n hook.Attachment) (all []netip.Addr) {
	at := slices.IndexFunc(p.networks, func(other *cniconf.Network) bool { return other.Name == n.Network })
	if at < 0 {
		return nil
	}
	for _, h := range p.networks[at].HostAddresses() {
		if slices.ContainsFunc(n.Addresses, func(own netip.Prefix) bool { return h.Address.Masked().Contains(own.Addr()) }) {
			all = append(all, h.Address.Addr())
		}
	}
	return all
}

// neighbours are other allocations on the network.
func (p *prober) neighbours(a *hook.Allocation, n hook.Attachment) (all []*probe) {
	for _, other := range p.allocations {
		for _, m := range other.Attachments {
			if other.ID == a.ID || m.Network != n.Network || m.Phase != state.Attached || len(all) == mostNeighbours {
				continue
			}
			address, ok := common(n.Addresses, m.Addresses)
			if !ok {
				continue
			}
			r := on(a, n, "neighbour", fmt.Sprintf("%s (%s)", address, other.ID))
			r.Next = fmt.Sprintf("allocnet test %s, then allocnet capture %s %s", other.ID, other.ID, m.Interface)
			all = append(all, p.ping(r, a, n, p.end(other.ID, m, address), echo.Request{Target: address, Device: n.Interface}))
		}
	}
	if len(all) == 0 {
		all = append(all, on(a, n, "neighbour", "").skip("no other allocation of this host is on the network"))
	}
	return all
}

// common returns an address of others, of a family of which there is an own one.
func common(own, others []netip.Prefix) (netip.Addr, bool) {
	for _, other := range others {
		if slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Addr().Is4() == other.Addr().Is4() }) {
			return other.Addr(), true
		}
	}
	return netip.Addr{}, false
}

// ping has a probe send an echo request, unless rules deny it.
func (p *prober) ping(r *probe, a *hook.Allocation, n hook.Attachment, to isolation.End, request echo.Request) *probe {
	if by := p.denied(a, n, isolation.Flow{To: to, Protocol: "icmp"}); by != "" {
		return r.skip(by)
	}
	r.echo = &request
	return r
}

// mtu is a packet as long as the interface can send, to the first that is pinged.
func (p *prober) mtu(a *hook.Allocation, n hook.Attachment, pinged []*probe) *probe {
	r := on(a, n, "mtu", fmt.Sprint(n.MTU))
	at := slices.IndexFunc(pinged, func(other *probe) bool { return other.echo != nil })
	switch {
	case n.MTU == 0:
		return r.skip("the MTU is not known")
	case at < 0:
		return r.skip("there is nothing to send to")
	}
	request := *pinged[at].echo
	request.Size = n.MTU
	r.Target, r.echo = fmt.Sprintf("%d bytes to %s", n.MTU, pinged[at].Target), &request
	r.Next = fmt.Sprintf("the MTU of each link on the way: allocnet networks %s, then ip -d link", n.Network)
	return r
}

// ports are those that are published of TCP; of other protocols no answer is to be expected.
func (p *prober) ports(a *hook.Allocation, n hook.Attachment) (all []*probe) {
	for _, m := range n.Ports {
		r := on(a, n, "port", m.String())
		all = append(all, r)
		host, err := netip.ParseAddr(m.HostIP)
		inside, ok := common(n.Addresses, n.Addresses)
		if host = host.Unmap(); err != nil || host.IsUnspecified() {
			host = p.outwardOf(inside)
		} else { // the port leads to the address of its family
			inside, ok = common([]netip.Prefix{netip.PrefixFrom(host, host.BitLen())}, n.Addresses)
		}
		switch {
		case m.Protocol != "tcp":
			r.skip("only TCP answers by itself")
			continue
		case !ok || !host.IsValid():
			r.skip("neither end has an address that the other one reaches")
			continue
		}
		if by := p.deniedFrom(isolation.End{Host: true, Address: host}, p.end(a.ID, n, inside), m); by != "" {
			r.skip(by)
			continue
		}
		r.connect = &published{netip.AddrPortFrom(host, uint16(m.HostPort)), netip.AddrPortFrom(inside, uint16(m.ContainerPort))}
	}
	return all
}

// outwardOf returns an address of this host of a family; an invalid one if it has none.
func (p *prober) outwardOf(family netip.Addr) netip.Addr {
	at := slices.IndexFunc(p.outward, func(a netip.Addr) bool { return a.Is4() == family.Is4() })
	if at < 0 {
		return netip.Addr{}
	}
	return p.outward[at]
}

func (p *prober) servers(a *hook.Allocation) (all []*probe) {
	for _, server := range a.DNS.Servers {
		r := &probe{Allocation: a.ID, Kind: "dns", Target: server, Next: fmt.Sprintf("allocnet exec %s -- cat /etc/resolv.conf, then docs/dns.md", a.ID)}
		all = append(all, r)
		address, err := netip.ParseAddr(server)
		switch {
		case err != nil || len(a.Attachments) == 0:
			r.skip("it is not an address")
		default:
			r.dns = address
			if by := p.denied(a, a.Attachments[0], isolation.Flow{To: p.elsewhere(address), Protocol: "udp", Port: 53}); by != "" {
				r.dns = netip.Addr{}
				r.skip(by)
			}
		}
	}
	return all
}

// end is an attachment with an address. One whose packets do not pass the host is something else, to which no rule applies.
func (p *prober) end(id string, n hook.Attachment, address netip.Addr) isolation.End {
	if m := p.member(id, n); m != nil {
		return isolation.EndOf(*m, address)
	}
	return isolation.End{Address: address}
}

// elsewhere is the host, or what is beyond it.
func (p *prober) elsewhere(address netip.Addr) isolation.End {
	return isolation.End{Address: address.WithZone(""), Host: slices.Contains(p.own, address.WithZone(""))}
}

// denied tells which rule denies a flow of an attachment; empty if none does.
func (p *prober) denied(a *hook.Allocation, n hook.Attachment, f isolation.Flow) string {
	m := p.member(a.ID, n)
	if m == nil {
		return ""
	}
	for _, own := range m.Addresses {
		if own.Is4() == f.To.Address.Is4() {
			f.From = isolation.EndOf(*m, own)
			return reason(isolation.Decide(p.rules, p.members, f))
		}
	}
	return ""
}

func (p *prober) deniedFrom(from, to isolation.End, m hook.PortMapping) string {
	return reason(isolation.Decide(p.rules, p.members, isolation.Flow{From: from, To: to, Protocol: m.Protocol, Port: uint16(m.ContainerPort), Published: true}))
}

func reason(d isolation.Decision) string {
	if d.Allowed {
		return ""
	}
	return "denied: " + d.Text
}
