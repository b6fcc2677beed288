// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package kernel is what the engine asks of the kernel: the network namespaces of allocations, and that of the host. Tests
// of the engine have both in memory.
package kernel

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/internal/hostns"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/portmap"
	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/listener"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// Host is the host's own network namespace.
type Host interface {
	// Outside is why this process may be outside of the host's namespaces; nil: it is not.
	Outside() error
	// GuardLoopback keeps what tasks send from services of the host that listen on 127.0.0.1.
	GuardLoopback(ctx context.Context) error
	// KeepAdvertised has the host go on with what it has from router advertisements when it forwards IPv6.
	KeepAdvertised() error
	// LinkMTU returns the MTU of a link; ok is false when there is none of that name.
	LinkMTU(name string) (mtu int, ok bool, err error)
	// UplinkMTU is that of the interfaces by which it sends to elsewhere; 0 if it has no default route.
	UplinkMTU() (int, error)
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
	// WhyBridgeStays tells why a bridge, to which its network gives addresses, is not removed with it, as netns.WhyBridgeStays.
	WhyBridgeStays(name string, own []netip.Prefix) (why string, err error)
	// RemoveBridge removes a bridge.
	RemoveBridge(name string) error
	// IsIPv6Off tells whether IPv6 is switched off on a link, or on netns.NewInterfaces. One that is missing has none.
	IsIPv6Off(link string) (bool, error)
	// SwitchIPv6Off switches IPv6 off on a link.
	SwitchIPv6Off(link string) error
	// Announce tells the neighbours of an interface of a namespace which addresses it has.
	Announce(ns Namespace, iface string, addresses []netip.Addr) error
	// IPTables is which program iptables is now: "nft", "legacy", or empty if that is unknown or there is none.
	IPTables() string
	// FiltersBridges tells whether bridged IPv4 traffic passes iptables.
	FiltersBridges() bool
	// FilterBridges has bridged traffic pass iptables.
	FilterBridges(log hclog.Logger)
	// Addressed returns those of its interfaces that have addresses of subnets.
	Addressed() ([]netns.Interface, error)
	// Interfaces returns its interfaces with their addresses.
	Interfaces() ([]netns.Interface, error)
	// Holder returns the first of the addresses that one of its links has, and that link; empty if none has one.
	Holder(addresses []netip.Addr) (held netip.Addr, link string, err error)
	// MayHold tells whether a link of it may have an address, without a list of them; see netns.MayHold.
	MayHold(address netip.Addr) bool
	// GatewayMACs returns its gateways, and those given, by the MACs that it knows of them.
	GatewayMACs(gateways []netip.Addr) (map[string]netip.Addr, error)
	// Listeners returns the sockets that receive what arrives at ports of the host.
	Listeners() ([]listener.Listener, error)
}

// NewHost returns the network namespace of this process.
func NewHost() Host { return ownHost{} }

type ownHost struct{}

func (ownHost) Outside() error                                     { return hostns.Check() }
func (ownHost) GuardLoopback(ctx context.Context) error            { return portmap.GuardLoopback(ctx) }
func (ownHost) KeepAdvertised() error                              { return plugin.KeepAdvertised() }
func (ownHost) LinkMTU(name string) (int, bool, error)             { return netns.LinkMTU(name) }
func (ownHost) UplinkMTU() (int, error)                            { return netns.UplinkMTU() }
func (ownHost) LinkMAC(name string) (string, bool, error)          { return netns.LinkMAC(name) }
func (ownHost) FindBridge(name string) (netns.Bridge, bool, error) { return netns.FindBridge(name) }
func (ownHost) IsIPv6Off(link string) (bool, error)                { return netns.IsIPv6Off(link) }
func (ownHost) IPTables() string                                   { return string(rules.CurrentKind()) }
func (ownHost) PinMTU(bridge string, mtu int) error                { return netns.PinMTU(bridge, mtu) }
func (ownHost) FilterBridges(log hclog.Logger)                     { filterBridges(log, "/proc/sys/net/bridge") }
func (ownHost) FiltersBridges() bool                               { return filtersBridges("/proc/sys/net/bridge") }
func (ownHost) Listeners() ([]listener.Listener, error)            { return listener.All() }
func (ownHost) Addressed() ([]netns.Interface, error)              { return netns.OwnAddressed() }
func (ownHost) Interfaces() ([]netns.Interface, error)             { return netns.OwnInterfaces() }
func (ownHost) RemoveBridge(name string) error                     { return netns.RemoveBridge(name) }
func (ownHost) MayHold(address netip.Addr) bool                    { return netns.MayHold(address) }

func (ownHost) SwitchIPv6Off(link string) error {
	var s sysctl.Tree
	return netns.SwitchIPv6Off(&s, link)
}

func (ownHost) FindLink(name, kind, mac string) (string, error) {
	return netns.FindLink(name, kind, mac)
}

func (ownHost) Holder(addresses []netip.Addr) (netip.Addr, string, error) {
	return netns.OwnHolder(addresses)
}

func (ownHost) GatewayMACs(gateways []netip.Addr) (map[string]netip.Addr, error) {
	return netns.GatewayMACs(gateways)
}

func (ownHost) KeepBridge(name string, portMTU int) (string, error) {
	return netns.KeepBridge(name, portMTU)
}

func (ownHost) WhyBridgeStays(name string, own []netip.Prefix) (string, error) {
	return netns.WhyBridgeStays(name, own)
}

func (ownHost) RestoreBridge(name, acceptRA string) error {
	return netns.RestoreBridge(name, acceptRA)
}

// bridgeSysctls are off after boot, and absent without the br_netfilter module.
var bridgeSysctls = []string{"bridge-nf-call-iptables", "bridge-nf-call-ip6tables"}

// filterBridges turns the sysctls on. A failure is a warning: allocations on the
// host's network work without.
func filterBridges(log hclog.Logger, dir string) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if out, err := exec.Command("modprobe", "br_netfilter").CombinedOutput(); err != nil {
			log.Debug("load br_netfilter", "error", err, "output", string(out))
		}
	}
	for _, name := range bridgeSysctls {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("1"), 0); err != nil {
			log.Warn("bridged traffic may pass iptables by; run: modprobe br_netfilter && sysctl -w net.bridge."+name+"=1", "error", err)
		}
	}
}

// filtersBridges tells whether the sysctl of IPv4 is on.
func filtersBridges(dir string) bool {
	value, err := os.ReadFile(filepath.Join(dir, bridgeSysctls[0]))
	return err == nil && strings.TrimSpace(string(value)) == "1"
}

// Once returns the host for one operation, whose addresses are listed once, however many networks are compared with them. What
// the host got since is found by the address.
func Once(h Host) Host {
	return once{h, sync.OnceValues(func() ([]netns.Interface, error) { return h.Addressed() })}
}

type once struct {
	Host
	addressed func() ([]netns.Interface, error)
}

func (o once) Addressed() ([]netns.Interface, error) { return o.addressed() }

// Holder lists the addresses again only if one of those given seems to be among them.
func (o once) Holder(addresses []netip.Addr) (netip.Addr, string, error) {
	links, err := o.addressed()
	had := func(a netip.Addr) bool {
		return slices.ContainsFunc(links, func(i netns.Interface) bool {
			return slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return p.Addr() == a })
		})
	}
	if err == nil && !slices.ContainsFunc(addresses, had) && !slices.ContainsFunc(addresses, o.MayHold) {
		return netip.Addr{}, "", nil
	}
	return o.Host.Holder(addresses)
}
