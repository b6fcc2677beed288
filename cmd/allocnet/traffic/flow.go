// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package traffic

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/isolation"
)

// flowQuestion finds the ends of a flow that a person names.
type flowQuestion struct {
	traffic
	// resolve returns the ID of which there is the beginning, and own the addresses of this host.
	resolve func(id string) (string, error)
	own     func() ([]netip.Addr, error)
}

// named is what a person names as an end: all addresses that it may have.
type named struct {
	ends []isolation.End
	// gateways are those of an attachment, which the host has.
	gateways []netip.Addr
}

// flow returns that of two names. Both ends have an address of one family; the host may have none. asked is what the source has sent to, if that is a
// published port.
func (q *flowQuestion) flow(from, to string, p isolation.Ports) (f isolation.Flow, asked netip.AddrPort, err error) {
	f.Protocol, f.Port = p.Protocol, p.First
	source, err := q.end(from)
	if err != nil {
		return f, asked, err
	}
	destination, err := q.end(to)
	if err != nil {
		return f, asked, err
	}
	host := destination.ends[0]
	if translated, port, found := q.published(destination, p); found {
		destination, f.Port, f.Published = translated, port, true
	}
	for _, f.From = range source.ends {
		for _, f.To = range destination.ends {
			f.From, f.To = atGateway(f.From, destination.gateways, f.To), atGateway(f.To, source.gateways, f.From)
			if f.From.Address.IsValid() && f.To.Address.IsValid() && f.From.Address.Is4() != f.To.Address.Is4() {
				continue
			}
			if f.Published {
				asked = netip.AddrPortFrom(atGateway(host, source.gateways, f.To).Address, p.First)
			}
			return f, asked, nil
		}
	}
	return f, asked, cli.Usage(fmt.Errorf("%s and %s have no addresses of one family: want both of IPv4, or both of IPv6", from, to))
}

// atGateway gives the host the address that the other end knows of it, if it has none.
func atGateway(e isolation.End, gateways []netip.Addr, other isolation.End) isolation.End {
	at := slices.IndexFunc(gateways, func(a netip.Addr) bool { return a.Is4() == other.Address.Is4() })
	if e.Host && !e.Address.IsValid() && at >= 0 {
		e.Address = gateways[at]
	}
	return e
}

// end finds what a text names: host, an address, ID or ID@INTERFACE.
func (q *flowQuestion) end(text string) (named, error) {
	if text == "host" {
		return named{ends: []isolation.End{{Host: true}}}, nil
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return q.addressed(a.Unmap())
	}
	prefix, iface, _ := strings.Cut(text, "@")
	id, err := q.resolve(prefix)
	if err != nil {
		return named{}, err
	}
	for _, a := range q.allocations {
		if a.ID == id {
			return q.attached(a, iface)
		}
	}
	return named{}, cli.Usage(fmt.Errorf("allocation %s has no attachment", id))
}

func (q *flowQuestion) addressed(a netip.Addr) (named, error) {
	own, err := q.own()
	if err != nil {
		return named{}, err
	}
	if slices.Contains(own, a) {
		return named{ends: []isolation.End{{Host: true, Address: a}}}, nil
	}
	var found []isolation.End
	var names []string
	for _, m := range q.members {
		if slices.Contains(m.Addresses, a) {
			found = append(found, isolation.EndOf(m, a))
			names = append(names, q.name(isolation.EndOf(m, a)))
		}
	}
	switch len(found) {
	case 0:
		return named{ends: []isolation.End{{Address: a}}}, nil
	case 1:
		return named{ends: found}, nil
	}
	return named{}, cli.Usage(fmt.Errorf("%s is the address of %s: want one of these, as ID@INTERFACE", a, strings.Join(names, " and ")))
}

// attached is an attachment of an allocation, the first unless an interface is given.
func (q *flowQuestion) attached(a *hook.Allocation, iface string) (named, error) {
	for _, n := range a.Attachments {
		if iface != "" && n.Interface != iface {
			continue
		}
		m := q.member(a.ID, n)
		if m == nil {
			return named{}, cli.Usage(fmt.Errorf("%s@%s, network %s: its packets do not pass this host, or it is not attached: nothing is known of its traffic", a.ID, n.Interface, n.Network))
		}
		found := named{}
		if !m.Inside { // else these are other machines
			found.gateways = n.Gateways
		}
		for _, address := range m.Addresses {
			found.ends = append(found.ends, isolation.EndOf(*m, address))
		}
		return found, nil
	}
	return named{}, cli.Usage(fmt.Errorf("allocation %s has no attachment %s: allocnet status %s has them", a.ID, iface, a.ID))
}

// published finds where a port of the host leads to.
func (q *flowQuestion) published(to named, p isolation.Ports) (translated named, port uint16, found bool) {
	if !to.ends[0].Host {
		return named{}, 0, false
	}
	for _, a := range q.allocations {
		for _, n := range a.Attachments {
			for _, m := range n.Ports {
				if !m.Has(int32(p.First)) || m.Protocol != p.Protocol || !serves(m, to.ends[0].Address) {
					continue
				}
				if translated, err := q.attached(a, n.Interface); err == nil {
					return translated, uint16(m.ContainerPort + int32(p.First) - m.HostPort), true
				}
			}
		}
	}
	return named{}, 0, false
}

// serves tells whether a published port is one of an address of the host; of the host as a whole if that is not valid.
func serves(m hook.PortMapping, a netip.Addr) bool {
	on, err := netip.ParseAddr(m.HostIP)
	return err != nil || on.IsUnspecified() || !a.IsValid() || on == a
}

func hostAddresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of this host: %w", err)
	}
	var addresses []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			addresses = append(addresses, p.Addr())
		}
	}
	return addresses, nil
}
