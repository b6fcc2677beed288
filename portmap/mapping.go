// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package portmap

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// Mapping is an element of the capability portMappings. Those of CNI have no LastHostPort: plugins get none (Single).
type Mapping = allocation.PortMapping

func target(m Mapping) string {
	return fmt.Sprintf("%s from %s", m.ContainerPorts(), cmp.Or(m.HostIP, "all addresses"))
}

// Mappings returns the mappings of the ports, and of those that a job chooses, in a fixed order: by host port,
// protocol and host IP.
func Mappings(ports []Port, chosen ...allocation.ChosenPort) ([]Mapping, error) {
	var mappings []Mapping
	for _, p := range ports {
		if err := validate(p); err != nil {
			return nil, err
		}
		mappings = append(mappings, mappingsOf(p)...)
	}
	for _, c := range chosen {
		m, err := chosenMapping(c)
		if err != nil {
			return nil, err
		}
		mappings = append(mappings, m)
	}
	slices.SortFunc(mappings, compare)
	return mappings, Check(mappings)
}

// chosenMapping returns the mapping of a port, or of a range of them: without a protocol it is of TCP alone.
func chosenMapping(c allocation.ChosenPort) (Mapping, error) {
	p := Port{Label: c.HostPort.String(), HostPort: c.HostPort.First, To: c.ContainerPort, Protocol: cmp.Or(c.Protocol, "tcp"), HostIP: c.HostIP}
	if !c.HostPort.IsOne() {
		p.LastHostPort = c.HostPort.Last
		if c.ContainerPort != 0 {
			return Mapping{}, invalidPort(p.Label, "containerPort", c.ContainerPort, noShift)
		}
	}
	if err := validate(p); err != nil {
		return Mapping{}, err
	}
	return mappingsOf(p)[0], nil
}

func mappingsOf(p Port) []Mapping {
	m := Mapping{HostPort: int32(p.HostPort), ContainerPort: int32(p.To), Protocol: p.Protocol, HostIP: p.HostIP}
	if p.To == 0 {
		m.ContainerPort = m.HostPort
	}
	if p.LastHostPort > p.HostPort {
		m.LastHostPort = int32(p.LastHostPort)
	}
	if m.Protocol != "" {
		return []Mapping{m}
	}
	tcp, udp := m, m
	tcp.Protocol, udp.Protocol = "tcp", "udp"
	return []Mapping{tcp, udp}
}

func compare(a, b Mapping) int {
	return cmp.Or(
		cmp.Compare(a.HostPort, b.HostPort),
		cmp.Compare(a.Protocol, b.Protocol),
		cmp.Compare(a.HostIP, b.HostIP),
		cmp.Compare(a.ContainerPort, b.ContainerPort),
	)
}

// Check refuses two mappings of one host port and protocol on overlapping host IPs.
func Check(mappings []Mapping) error {
	sorted := slices.SortedFunc(slices.Values(mappings), compare)
	for i, a := range sorted {
		for _, b := range sorted[i+1:] {
			if !a.Has(b.HostPort) {
				break
			}
			if Overlap(a, b) {
				return errdefs.As(errdefs.Refused, fmt.Errorf("host port %s/%s is mapped twice: to %s and to %s", a.HostPorts(), a.Protocol, target(a), target(b)))
			}
		}
	}
	return nil
}

// Overlap tells whether two mappings share a host port of one protocol, on host
// IPs that share an address.
func Overlap(a, b Mapping) bool {
	return (a.Has(b.HostPort) || b.Has(a.HostPort)) && a.Protocol == b.Protocol && overlap(a.HostIP, b.HostIP)
}

// overlap tells whether two host IPs share an address. Empty is all addresses;
// 0.0.0.0 and :: are all of their family.
func overlap(a, b string) bool {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	if errX != nil || errY != nil {
		return true
	}
	x, y = x.Unmap(), y.Unmap()
	return x.Is4() == y.Is4() && (x == y || x.IsUnspecified() || y.IsUnspecified())
}

// Single returns mappings of one port each, as plugins read them. A range of more than mostPorts is refused.
func Single(mappings []Mapping) ([]Mapping, error) {
	var all []Mapping
	for _, m := range mappings {
		ports := m.HostPorts()
		if n := ports.Last - ports.First + 1; n > mostPorts {
			return nil, invalidPort(ports.String(), "range of ports", n, fmt.Sprintf("want at most %d: the network's plugins are executed, and make rules for each port", mostPorts))
		}
		for i := range int32(ports.Last-ports.First) + 1 {
			all = append(all, Mapping{HostPort: m.HostPort + i, ContainerPort: m.ContainerPort + i, Protocol: m.Protocol, HostIP: m.HostIP})
		}
	}
	return all, nil
}

// Capability returns the mappings as the portMappings capability argument with
// the keys of the CNI conventions, and that of ranges.
func Capability(mappings []Mapping) []map[string]any {
	list := make([]map[string]any, len(mappings))
	for i, m := range mappings {
		list[i] = map[string]any{"hostPort": m.HostPort, "containerPort": m.ContainerPort, "protocol": m.Protocol}
		if m.HostIP != "" {
			list[i]["hostIP"] = m.HostIP
		}
		if m.LastHostPort != 0 {
			list[i]["lastHostPort"] = m.LastHostPort
		}
	}
	return list
}
