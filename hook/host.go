// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"net/netip"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/listener"
	"github.com/allocnet/allocnet/internal/netns"
)

// Host is the host's own network namespace.
type Host interface {
	// LinkMTU returns the MTU of a link; ok is false when there is none of that name.
	LinkMTU(name string) (mtu int, ok bool, err error)
	// LinkMAC returns the MAC of a link; ok is false when there is none of that name.
	LinkMAC(name string) (mac string, ok bool, err error)
	// FindLink returns the name that a link of a kind and with a MAC has now, as netns.FindLink; empty if there is none.
	FindLink(name, kind, mac string) (string, error)
	// FindBridge returns a bridge; ok is false when there is none of that name.
	FindBridge(name string) (b netns.Bridge, ok bool, err error)
	// PinMTU sets the MTU of a bridge so that it does not follow its ports.
	PinMTU(bridge string, mtu int) error
	// KeepBridge has a bridge keep its MAC and MTU when it gets a port with an MTU, and returns its accept_ra; empty if it has none.
	KeepBridge(name string, portMTU int) (acceptRA string, err error)
	// RestoreBridge sets accept_ra of a bridge that a plugin has set to 0.
	RestoreBridge(name, acceptRA string) error
	// IsIPv6Off tells whether IPv6 is switched off on a link, or on netns.NewInterfaces. One that is missing has none.
	IsIPv6Off(link string) (bool, error)
	// IPTables is which program iptables is now: "nft", "legacy", or empty if that is unknown or there is none.
	IPTables() string
	// FiltersBridges tells whether bridged IPv4 traffic passes iptables.
	FiltersBridges() bool
	// FilterBridges has bridged traffic pass iptables.
	FilterBridges(log hclog.Logger)
	// Interfaces returns its interfaces with their addresses.
	Interfaces() ([]netns.Interface, error)
	// Holder returns the first of the addresses that one of its links has, and that link; empty if none has one.
	Holder(addresses []netip.Addr) (held netip.Addr, link string, err error)
	// GatewayMACs returns its gateways, and those given, by the MACs that it knows of them.
	GatewayMACs(gateways []netip.Addr) (map[string]netip.Addr, error)
	// Listeners returns the sockets that receive what arrives at ports of the host.
	Listeners() ([]listener.Listener, error)
}

// kernelHost is the network namespace of this process.
type kernelHost struct{}

var _ Host = kernelHost{}

func (kernelHost) LinkMTU(name string) (int, bool, error)             { return netns.LinkMTU(name) }
func (kernelHost) LinkMAC(name string) (string, bool, error)          { return netns.LinkMAC(name) }
func (kernelHost) FindBridge(name string) (netns.Bridge, bool, error) { return netns.FindBridge(name) }
func (kernelHost) IsIPv6Off(link string) (bool, error)                { return netns.IsIPv6Off(link) }
func (kernelHost) IPTables() string                                   { return IPTables() }

func (kernelHost) PinMTU(bridge string, mtu int) error     { return netns.PinMTU(bridge, mtu) }
func (kernelHost) FilterBridges(log hclog.Logger)          { filterBridges(log, "/proc/sys/net/bridge") }
func (kernelHost) FiltersBridges() bool                    { return filtersBridges("/proc/sys/net/bridge") }
func (kernelHost) Listeners() ([]listener.Listener, error) { return listener.All() }
func (kernelHost) Interfaces() ([]netns.Interface, error)  { return netns.OwnInterfaces() }

func (kernelHost) FindLink(name, kind, mac string) (string, error) {
	return netns.FindLink(name, kind, mac)
}

func (kernelHost) Holder(addresses []netip.Addr) (netip.Addr, string, error) {
	return netns.OwnHolder(addresses)
}

func (kernelHost) GatewayMACs(gateways []netip.Addr) (map[string]netip.Addr, error) {
	return netns.GatewayMACs(gateways)
}

func (kernelHost) KeepBridge(name string, portMTU int) (string, error) {
	return netns.KeepBridge(name, portMTU)
}

func (kernelHost) RestoreBridge(name, acceptRA string) error {
	return netns.RestoreBridge(name, acceptRA)
}

// IPTables returns the kind of iptables that this host's programs are now: nft or legacy; empty if that is not known.
func IPTables() string { return string(rules.CurrentKind()) }
