// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package allocation

// NetworkStatus is an element of network-status as the network plumbing
// working group defines it (Multi-Network Specification, "Network Attachment
// Status").
type NetworkStatus struct {
	Name      string           `json:"name"`
	Interface string           `json:"interface"`
	IPs       []string         `json:"ips,omitempty"`
	MAC       string           `json:"mac,omitempty"`
	MTU       int              `json:"mtu,omitempty"`
	Default   bool             `json:"default,omitempty"`
	DNS       NetworkStatusDNS `json:"dns"`
	Gateway   []string         `json:"gateway,omitempty"`
}

// NetworkStatusDNS is the DNS part of a NetworkStatus.
type NetworkStatusDNS struct {
	Nameservers []string `json:"nameservers,omitempty"`
	Domain      string   `json:"domain,omitempty"`
	Search      []string `json:"search,omitempty"`
	Options     []string `json:"options,omitempty"`
}

// NetworkStatus returns the allocation's network-status, primary first.
func (a *Allocation) NetworkStatus() []NetworkStatus {
	list := make([]NetworkStatus, len(a.Attachments))
	for i, attachment := range a.Attachments {
		list[i] = attachment.networkStatus()
	}
	return list
}

func (a Attachment) networkStatus() NetworkStatus {
	s := NetworkStatus{
		Name:      a.Network,
		Interface: a.Interface,
		MAC:       a.MAC,
		MTU:       a.MTU,
		Default:   a.Primary,
		DNS:       NetworkStatusDNS{a.DNS.Servers, a.DNS.Domain, a.DNS.Searches, a.DNS.Options},
	}
	for _, address := range a.Addresses {
		s.IPs = append(s.IPs, address.Addr().String())
	}
	for _, gateway := range a.Gateways {
		s.Gateway = append(s.Gateway, gateway.String())
	}
	return s
}
