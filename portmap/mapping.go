// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package portmap

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/containerd/go-cni"

	"github.com/allocnet/allocnet/internal/errdefs"
)

func target(m cni.PortMapping) string {
	return fmt.Sprintf("%d from %s", m.ContainerPort, cmp.Or(m.HostIP, "all addresses"))
}

// Mappings returns the mappings of the ports in a fixed order: by host port,
// protocol and host IP.
func Mappings(ports []Port) ([]cni.PortMapping, error) {
	var mappings []cni.PortMapping
	for _, p := range ports {
		if err := validate(p); err != nil {
			return nil, err
		}
		mappings = append(mappings, mappingsOf(p)...)
	}
	slices.SortFunc(mappings, compare)
	return mappings, Check(mappings)
}

func mappingsOf(p Port) []cni.PortMapping {
	m := cni.PortMapping{HostPort: int32(p.HostPort), ContainerPort: int32(p.To), Protocol: p.Protocol, HostIP: p.HostIP}
	if p.To == 0 {
		m.ContainerPort = m.HostPort
	}
	if m.Protocol != "" {
		return []cni.PortMapping{m}
	}
	tcp, udp := m, m
	tcp.Protocol, udp.Protocol = "tcp", "udp"
	return []cni.PortMapping{tcp, udp}
}

func compare(a, b cni.PortMapping) int {
	return cmp.Or(
		cmp.Compare(a.HostPort, b.HostPort),
		cmp.Compare(a.Protocol, b.Protocol),
		cmp.Compare(a.HostIP, b.HostIP),
		cmp.Compare(a.ContainerPort, b.ContainerPort),
	)
}

// Check refuses two mappings of one host port and protocol on overlapping host IPs.
func Check(mappings []cni.PortMapping) error {
	sorted := slices.SortedFunc(slices.Values(mappings), compare)
	for i, a := range sorted {
		for _, b := range sorted[i+1:] {
			if a.HostPort != b.HostPort || a.Protocol != b.Protocol {
				break
			}
			if Overlap(a, b) {
				return errdefs.As(errdefs.Refused, fmt.Errorf("host port %d/%s is mapped twice: to %s and to %s", a.HostPort, a.Protocol, target(a), target(b)))
			}
		}
	}
	return nil
}

// Overlap tells whether two mappings are of one host port and protocol, on host
// IPs that share an address.
func Overlap(a, b cni.PortMapping) bool {
	return a.HostPort == b.HostPort && a.Protocol == b.Protocol && overlap(a.HostIP, b.HostIP)
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

// Capability returns the mappings as the portMappings capability argument with
// the keys of the CNI conventions.
func Capability(mappings []cni.PortMapping) []map[string]any {
	list := make([]map[string]any, len(mappings))
	for i, m := range mappings {
		list[i] = map[string]any{"hostPort": m.HostPort, "containerPort": m.ContainerPort, "protocol": m.Protocol}
		if m.HostIP != "" {
			list[i]["hostIP"] = m.HostIP
		}
	}
	return list
}
