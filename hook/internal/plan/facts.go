// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"net/netip"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// Facts are what a plan needs to know beside the request. A plan asks for what it needs, in the order in which it refuses.
type Facts struct {
	// Networks finds networks that can be attached, or says which one cannot be and why.
	Networks func(names []string) ([]*cniconf.Network, error)
	// Policy returns the rules of the host.
	Policy func() (policy.Source, error)
	// PluginDirs are searched for the plugins.
	PluginDirs []string
	// Host is the host.
	Host Host
	// Record reads the record of an allocation; the error is state.ErrNotFound if it has none.
	Record func(id string) (state.Record, error)
	// UnpinnedMTU returns the largest MTU that incomplete attachments need on a bridge.
	UnpinnedMTU func(bridge string) int
	// WhyPlugins returns why the plugins of a network are executed that has an executor among its options; nil if it is executed
	// in process.
	WhyPlugins func(list *libcni.NetworkConfigList, executor string) error
}

// Host are what a plan asks of the host.
type Host interface {
	// LinkMTU returns the MTU of a link; ok is false when there is none of that name.
	LinkMTU(name string) (mtu int, ok bool, err error)
	// Addressed returns those of its interfaces that have addresses of subnets.
	Addressed() ([]netns.Interface, error)
	// Interfaces returns its interfaces with their addresses.
	Interfaces() ([]netns.Interface, error)
	// GatewayMACs returns its gateways, and those given, by the MACs that it knows of them.
	GatewayMACs(gateways []netip.Addr) (map[string]netip.Addr, error)
	// IPTables is which program iptables is now: "nft", "legacy", or empty if that is unknown or there is none.
	IPTables() string
}
