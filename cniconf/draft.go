// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/utils"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/texts"
)

// Draft is a network in a few words, of which ConfList makes the configuration.
type Draft struct {
	// Name is as in Multi.
	Name string
	// Type is one of DraftTypes.
	Type string
	// Bridge is that of a bridge, Master the link that macvlan, ipvlan and vlan are made on, and Device that which
	// host-device moves. Other types have none.
	Bridge, Master, Device string
	// VLAN is the ID of a vlan.
	VLAN int
	// Subnets has at most one of each family. host-device may have none: its interface then gets no address.
	Subnets []netip.Prefix
	// Ranges are what allocations get of the subnets. Default: all but gateways.
	Ranges []Span
	// Gateways are those of the subnets. Default: the first address of each; of macvlan, ipvlan, vlan and host-device, which
	// have a default route only by a gateway that is given, none.
	Gateways []netip.Addr
	// Internal has no default route, no masquerading and no published ports.
	Internal bool
	// MTU is that of interfaces. 0: that of the link, or of the kernel.
	MTU int
	// Isolation is as in policy.Rules.
	Isolation string
}

// Span is the addresses from the first to the last.
type Span struct{ First, Last netip.Addr }

// DraftTypes are the types of a Draft; the first is the usual one.
var DraftTypes = []string{"bridge", "ptp", "macvlan", "ipvlan", "vlan", "host-device"}

type draftList struct {
	CNIVersion string         `json:"cniVersion"`
	Name       string         `json:"name"`
	Allocnet   *draftOptions  `json:"allocnet,omitempty"`
	Plugins    []*draftPlugin `json:"plugins"`
}

type draftOptions struct {
	IPv6      string `json:"ipv6,omitempty"`
	Isolation string `json:"isolation,omitempty"`
}

type draftPlugin struct {
	Type         string          `json:"type"`
	Bridge       string          `json:"bridge,omitempty"`
	Master       string          `json:"master,omitempty"`
	Device       string          `json:"device,omitempty"`
	Mode         string          `json:"mode,omitempty"`
	VLANID       int             `json:"vlanId,omitempty"`
	IsGateway    bool            `json:"isGateway,omitempty"`
	IPMasq       bool            `json:"ipMasq,omitempty"`
	HairpinMode  bool            `json:"hairpinMode,omitempty"`
	MTU          int             `json:"mtu,omitempty"`
	SNAT         bool            `json:"snat,omitempty"`
	Capabilities map[string]bool `json:"capabilities,omitempty"`
	IPAM         *draftIPAM      `json:"ipam,omitempty"`
}

type draftIPAM struct {
	Type   string         `json:"type"`
	Ranges [][]draftRange `json:"ranges"`
	Routes []draftRoute   `json:"routes,omitempty"`
}

type draftRange struct {
	Subnet     netip.Prefix `json:"subnet"`
	RangeStart netip.Addr   `json:"rangeStart,omitzero"`
	RangeEnd   netip.Addr   `json:"rangeEnd,omitzero"`
	Gateway    netip.Addr   `json:"gateway,omitzero"`
}

type draftRoute struct {
	Dst netip.Prefix `json:"dst"`
}

// ConfList returns the configuration, the same for the same draft.
func (d Draft) ConfList() ([]byte, error) {
	for _, check := range []func() error{d.checkType, d.checkLinks, d.checkSubnets, d.checkRanges, d.checkGateways} {
		if err := check(); err != nil {
			return nil, errdefs.As(errdefs.Refused, err)
		}
	}
	list := draftList{CNIVersion: multiVersion, Name: d.Name, Plugins: d.plugins()}
	options := draftOptions{Isolation: d.Isolation}
	if len(d.Subnets) > 0 && !slices.ContainsFunc(d.Subnets, isSix) {
		options.IPv6 = "off"
	}
	if options != (draftOptions{}) {
		list.Allocnet = &options
	}
	data, err := json.MarshalIndent(list, "", "  ")
	return append(data, '\n'), err
}

func isSix(p netip.Prefix) bool { return p.Addr().Is6() }

// routed tells whether the host routes for the network.
func (d Draft) routed() bool { return d.Type == "bridge" || d.Type == "ptp" }

func (d Draft) plugins() []*draftPlugin {
	main := &draftPlugin{
		Type: d.Type, Bridge: d.Bridge, Master: d.Master, Device: d.Device, VLANID: d.VLAN, MTU: d.MTU, IPAM: d.ipam(),
		IPMasq: d.routed() && !d.Internal,
	}
	if main.IPAM != nil {
		main.Capabilities = map[string]bool{"ips": true}
	}
	switch d.Type {
	case "bridge":
		main.Capabilities["mac"] = true
		main.IsGateway, main.HairpinMode = !d.Internal, !d.Internal
	case "macvlan":
		main.Mode = "bridge"
		main.Capabilities["mac"] = true
	}
	if !d.routed() || d.Internal {
		return []*draftPlugin{main}
	}
	return []*draftPlugin{main, {Type: "firewall"}, {Type: "portmap", SNAT: true, Capabilities: map[string]bool{"portMappings": true}}}
}

func (d Draft) ipam() *draftIPAM {
	if len(d.Subnets) == 0 {
		return nil
	}
	conf := &draftIPAM{Type: "host-local"}
	for _, subnet := range d.Subnets {
		r := draftRange{Subnet: subnet}
		for _, span := range d.Ranges {
			if subnet.Contains(span.First) {
				r.RangeStart, r.RangeEnd = span.First, span.Last
			}
		}
		for _, gateway := range d.Gateways {
			if subnet.Contains(gateway) {
				r.Gateway = gateway
			}
		}
		conf.Ranges = append(conf.Ranges, []draftRange{r})
		if !d.Internal && (d.routed() || r.Gateway.IsValid()) {
			conf.Routes = append(conf.Routes, draftRoute{netip.PrefixFrom(zero(subnet.Addr()), 0)})
		}
	}
	return conf
}

func zero(of netip.Addr) netip.Addr {
	if of.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

func (d Draft) checkType() error {
	if err := checkName(d.Name); err != nil {
		return err
	}
	switch {
	case !slices.Contains(DraftTypes, d.Type):
		return fmt.Errorf("type %q: want %s", d.Type, strings.Join(DraftTypes, ", "))
	case d.VLAN != 0 && d.Type != "vlan":
		return fmt.Errorf("vlan %d: a network of type %s has none", d.VLAN, d.Type)
	case d.Type == "vlan" && (d.VLAN < 1 || d.VLAN > 4094):
		return fmt.Errorf("vlan %d: want an ID from 1 to 4094, after the link that it is on, as in uplink.42", d.VLAN)
	case d.MTU != 0 && d.Type == "host-device":
		return fmt.Errorf("mtu %d: host-device leaves the MTU of its device as it is", d.MTU)
	case d.MTU != 0 && (d.MTU < 1280 || d.MTU > 65535):
		return fmt.Errorf("mtu %d: want 1280 to 65535", d.MTU)
	}
	return nil
}

// linkOf is the field of a type that has a link of the host.
var linkOf = map[string]string{"bridge": "bridge", "macvlan": "master", "ipvlan": "master", "vlan": "master", "host-device": "device"}

func (d Draft) checkLinks() error {
	for _, link := range []struct{ field, name string }{{"bridge", d.Bridge}, {"master", d.Master}, {"device", d.Device}} {
		switch wanted := linkOf[d.Type] == link.field; {
		case wanted && link.name == "":
			return fmt.Errorf("type %s: want a %s, which is a link of the host", d.Type, link.field)
		case !wanted && link.name != "":
			return fmt.Errorf("%s %q: a network of type %s has none", link.field, link.name, d.Type)
		case wanted && utils.ValidateInterfaceName(link.name) != nil:
			return fmt.Errorf("%s %q: want the name of a link: at most 15 characters, without '/', ':' and spaces", link.field, link.name)
		}
	}
	return nil
}

func (d Draft) checkSubnets() error {
	if len(d.Subnets) == 0 && d.Type != "host-device" {
		return fmt.Errorf("type %s: want a subnet, as in 10.42.0.0/24", d.Type)
	}
	for i, subnet := range d.Subnets {
		switch {
		case subnet != subnet.Masked():
			return fmt.Errorf("subnet %s: want its first address, as in %s", subnet, subnet.Masked())
		case subnet.Addr().Is4In6():
			return fmt.Errorf("subnet %s: want it as one of IPv4, as in 10.42.0.0/24", subnet)
		case isSix(subnet) && subnet.Addr().IsLinkLocalUnicast():
			return fmt.Errorf("subnet %s: want another one: the kernel gives each link an address of it", subnet)
		case subnet.Bits() > subnet.Addr().BitLen()-2:
			return fmt.Errorf("subnet %s: want one with room for a gateway and an allocation, such as a /%d", subnet, subnet.Addr().BitLen()-2)
		case slices.ContainsFunc(d.Subnets[:i], func(other netip.Prefix) bool { return isSix(other) == isSix(subnet) }):
			return fmt.Errorf("subnet %s: want one of IPv4, one of IPv6, or both", subnet)
		}
	}
	return nil
}

func (d Draft) checkRanges() error {
	for i, span := range d.Ranges {
		text := fmt.Sprintf("range %s-%s", span.First, span.Last)
		at := d.subnetOf(span.First)
		switch {
		case at < 0 || !d.Subnets[at].Contains(span.Last):
			return fmt.Errorf("%s: want addresses of %s", text, d.subnetList())
		case span.Last.Less(span.First):
			return fmt.Errorf("%s: want the first address before the last", text)
		case span.First == d.Subnets[at].Addr() || span.Last.Is4() && span.Last == ipam.LastOf(d.Subnets[at]):
			return fmt.Errorf("%s: want it without the network's own address and that of broadcasts", text)
		case span.First == span.Last && d.gatewayOf(at) == span.First:
			return fmt.Errorf("%s: its only address is the gateway's: want more than that", text)
		case slices.ContainsFunc(d.Ranges[:i], func(other Span) bool { return d.subnetOf(other.First) == at }):
			return fmt.Errorf("%s: want one range of each subnet", text)
		}
	}
	return nil
}

func (d Draft) checkGateways() error {
	if d.Internal && len(d.Gateways) > 0 {
		return errors.New("gateway and internal: want one of them: an internal network has no default route")
	}
	for i, gateway := range d.Gateways {
		at := d.subnetOf(gateway)
		switch {
		case at < 0:
			return fmt.Errorf("gateway %s: want an address of %s", gateway, d.subnetList())
		case gateway == d.Subnets[at].Addr() || gateway.Is4() && gateway == ipam.LastOf(d.Subnets[at]):
			return fmt.Errorf("gateway %s: want neither the network's own address nor that of broadcasts", gateway)
		case slices.ContainsFunc(d.Gateways[:i], func(other netip.Addr) bool { return d.subnetOf(other) == at }):
			return fmt.Errorf("gateway %s: want one gateway of each subnet", gateway)
		}
	}
	return nil
}

// gatewayOf returns the gateway of a subnet: the one that is given, or the first address.
func (d Draft) gatewayOf(subnet int) netip.Addr {
	for _, gateway := range d.Gateways {
		if d.subnetOf(gateway) == subnet {
			return gateway
		}
	}
	return d.Subnets[subnet].Addr().Next()
}

// subnetOf returns which subnet has an address; -1: none.
func (d Draft) subnetOf(address netip.Addr) int {
	return slices.IndexFunc(d.Subnets, func(p netip.Prefix) bool { return p.Contains(address) })
}

func (d Draft) subnetList() string {
	if len(d.Subnets) == 0 {
		return "a subnet, of which there is none"
	}
	return texts.Join(d.Subnets, " or ")
}
