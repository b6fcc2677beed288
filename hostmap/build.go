// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hostmap

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/netip"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
)

type facts struct {
	Host        string
	Allocations []*hook.Allocation
	// Inspections are by allocation. One that is missing was not inspected.
	Inspections map[string]inspection
	// Networks are those of the CNI configuration directories.
	Networks []*cniconf.Network
	// Usage is that of the networks' pools, by network.
	Usage map[string][]cniconf.Usage
	// Shared is what this host has of pools of allocnet-ipam, by pool.
	Shared map[string]pool.Usage
	// Links are those of the host. Nil: they could not be listed.
	Links []netns.Interface
	// ShowsUnused is that of Host.
	ShowsUnused func(network string) bool
	// Denied are all flows that isolation denied, if they are to be in the map.
	Denied   []hook.DeniedFlow
	Problems []string
}

type inspection struct {
	Checked []hook.Checked
	Err     error
}

// sharedPlugin is the type of the IPAM plugin whose pools several hosts share.
const sharedPlugin = "allocnet-ipam"

// build makes a map of facts. It looks at nothing else.
func build(f facts) *Map {
	m := &Map{Host: f.Host, Networks: []Network{}, Allocations: []Allocation{}, Problems: f.Problems}
	used := map[string]int{}
	for _, a := range f.Allocations {
		m.Allocations = append(m.Allocations, f.allocation(a))
		for _, n := range a.Attachments {
			used[n.Network]++
		}
	}
	var configured []string
	for _, n := range f.Networks {
		configured = append(configured, n.Name)
		if used[n.Name] > 0 || f.ShowsUnused == nil || f.ShowsUnused(n.Name) {
			m.Networks = append(m.Networks, f.network(n, used[n.Name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if !slices.Contains(configured, name) {
			m.Networks = append(m.Networks, Network{Name: name, Attachments: used[name]})
		}
	}
	m.Denied = m.ofMap(f.Denied)
	return m
}

func (f facts) network(n *cniconf.Network, attachments int) Network {
	network := Network{Name: n.Name, File: n.Path, Plugins: n.PluginTypes(), Attachments: attachments}
	for _, d := range n.Devices() {
		network.Devices = append(network.Devices, f.device(d, attachments > 0))
	}
	if n.UsesIPAM(func(ipam string) bool { return ipam == "dhcp" }) {
		network.Leases = f.leases(n.Name)
	}
	for _, u := range f.Usage[n.Name] {
		network.Pools = append(network.Pools, f.pool(n, u))
	}
	return network
}

// leases returns how many attachments to a network have an IPv4 address, which is that of a lease.
func (f facts) leases(network string) (n int) {
	for _, a := range f.Allocations {
		for _, attachment := range a.Attachments {
			if attachment.Network == network && slices.ContainsFunc(attachment.Addresses, func(p netip.Prefix) bool { return p.Addr().Is4() }) {
				n++
			}
		}
	}
	return n
}

// device describes a link; used is whether attachments need it.
func (f facts) device(d cniconf.Device, used bool) Device {
	device := Device{Plugin: d.Plugin, Name: d.Name, Bridge: d.Bridge, State: Unknown}
	if d.Name == "" || f.Links == nil {
		return device
	}
	i := slices.IndexFunc(f.Links, func(l netns.Interface) bool { return l.IsNamed(d.Name) })
	if i < 0 {
		device.State = Missing
		if used || !d.Bridge {
			device.Drift = d.Name + " is missing"
		}
		return device
	}
	link := f.Links[i]
	device.State, device.MTU, device.Addresses = Up, link.MTU, link.Addresses
	if !link.Up {
		device.State = Down
		if used {
			device.Drift = d.Name + " is down"
		}
	}
	return device
}

func (f facts) pool(n *cniconf.Network, u cniconf.Usage) Pool {
	p := Pool{Plugin: "host-local", Family: u.Family, Used: u.Used, Total: u.Total}
	p.Subnets = slices.DeleteFunc(n.Subnets(), func(s netip.Prefix) bool { return fmt.Sprintf("ipv%d", ipam.FamilyOf(s.Addr())) != u.Family })
	for _, all := range n.Pools() {
		if all.Shared != nil {
			p.share(all.Shared.Pool, f.Shared[all.Shared.Pool])
		}
	}
	return p
}

// share replaces the size of the ranges, which all hosts share, by that of this host's blocks.
func (p *Pool) share(name string, here pool.Usage) {
	p.Plugin, p.Name, p.Total = sharedPlugin, name, new(big.Int)
	for _, u := range here.Families {
		if fmt.Sprintf("ipv%d", u.Family) == p.Family {
			p.Used, p.Blocks = u.Used, u.Blocks
			p.Total.SetInt64(int64(u.Used) + int64(u.Cooling) + int64(u.Free))
		}
	}
}

func (f facts) allocation(a *hook.Allocation) Allocation {
	allocation := Allocation{ID: a.ID, Identity: a.Identity, Netns: a.Netns, Attachments: []Attachment{}}
	seen := f.Inspections[a.ID]
	allocation.Drift, allocation.NotCompared = reasons(seen.Err)
	for i, text := range allocation.Drift {
		allocation.Drift[i] = strings.TrimPrefix(text, fmt.Sprintf("allocation %s: ", a.ID))
	}
	for _, n := range a.Attachments {
		attachment := Attachment{
			Network: n.Network, Interface: n.Interface, Primary: n.Primary, Task: n.Task, Phase: n.Phase,
			Addresses: n.Addresses, MAC: n.MAC, Ports: n.Ports, Error: n.Error,
		}
		for _, c := range seen.Checked {
			if c.Interface == n.Interface {
				attachment.Drift, attachment.NotCompared = reasons(c.Err)
			}
		}
		allocation.Attachments = append(allocation.Attachments, attachment)
	}
	return allocation
}

// reasons tells what was seen to be wrong from what keeps anyone from seeing it.
func reasons(err error) (drift []string, unknown string) {
	for _, e := range flatten(err) {
		if damage, ok := errors.AsType[*hook.DamageError](e); ok {
			drift = append(drift, damage.Reason)
		} else {
			unknown = e.Error()
		}
	}
	return drift, unknown
}

// flatten returns the errors that were joined, without what wraps them.
func flatten(err error) []error {
	if own, ok := errors.AsType[*hook.Error](err); ok {
		err = own.Err
	}
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, flatten(e)...)
	}
	return all
}
