// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package hostmap is a picture of a host: its networks with the devices that connect them, and
// its allocations with their attachments. Read collects what the host has and makes a Map of
// it, and Text, SVG and DOT draw it. All of them escape names: authors of jobs choose some.
package hostmap

import (
	"cmp"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/texts"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// Map is what is drawn. Its JSON is an interface to other programs.
type Map struct {
	// Host is its name.
	Host string `json:"host"`
	// Networks are those of the CNI configuration directories in their order, then those
	// that only records have.
	Networks []Network `json:"networks"`
	// Allocations are in the order of their IDs.
	Allocations []Allocation `json:"allocations"`
	// Denied are flows that isolation denied, with an end in the map. They are there if they are asked for.
	Denied []hook.DeniedFlow `json:"denied,omitempty"`
	// Problems are why something is missing in the map.
	Problems []string `json:"problems,omitempty"`
}

// Network is a network of the host.
type Network struct {
	Name string `json:"name"`
	// File has its configuration. Empty: only records have the network.
	File    string   `json:"file,omitempty"`
	Plugins []string `json:"plugins,omitempty"`
	Devices []Device `json:"devices,omitempty"`
	Pools   []Pool   `json:"pools,omitempty"`
	// Attachments is how many of those in the map are to this network.
	Attachments int `json:"attachments"`
	// Leases is how many of them have an address by DHCP.
	Leases int `json:"leases,omitempty"`
}

// Device is a bridge, or the master of interfaces.
type Device struct {
	// Plugin is the type of the plugin that uses it.
	Plugin string `json:"plugin"`
	// Name is that of the link. Empty: the link of the default route.
	Name   string      `json:"name,omitempty"`
	Bridge bool        `json:"bridge"`
	State  DeviceState `json:"state"`
	// MTU is 0 if the link is missing or unknown.
	MTU       int            `json:"mtu,omitempty"`
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	// Drift is what is wrong with it. Empty: nothing. A bridge may be missing as long as
	// nothing is attached.
	Drift string `json:"drift,omitempty"`
}

// DeviceState is whether the host has a link.
type DeviceState string

// States of a device.
const (
	Up      DeviceState = "up"
	Down    DeviceState = "down"
	Missing DeviceState = "missing"
	// Unknown is a link that was not looked for.
	Unknown DeviceState = "unknown"
)

// Pool is the addresses of one family that a network's plugin assigns.
type Pool struct {
	// Plugin is host-local or allocnet-ipam.
	Plugin string `json:"plugin"`
	// Name is that of a pool of allocnet-ipam.
	Name string `json:"name,omitempty"`
	// Family is ipv4 or ipv6.
	Family  string         `json:"family"`
	Subnets []netip.Prefix `json:"subnets"`
	// Blocks is how many blocks of a pool of allocnet-ipam this host has.
	Blocks int `json:"blocks,omitempty"`
	// Used is how many addresses have a lease on this host.
	Used int `json:"used"`
	// Total is how many this host can assign: of allocnet-ipam those of its blocks.
	Total *big.Int `json:"total"`
}

// Allocation is an allocation that is on record.
type Allocation struct {
	ID          string          `json:"id"`
	Identity    policy.Identity `json:"identity,omitzero"`
	Netns       string          `json:"netns"`
	Attachments []Attachment    `json:"attachments"`
	// Drift is how its namespace differs from the record, beside its attachments.
	Drift []string `json:"drift,omitempty"`
	// NotCompared is why it is unknown whether it does.
	NotCompared string `json:"notCompared,omitempty"`
}

// Attachment is one network of an allocation.
type Attachment struct {
	Network   string             `json:"network"`
	Interface string             `json:"interface"`
	Primary   bool               `json:"primary"`
	Task      string             `json:"task,omitempty"`
	Phase     state.Phase        `json:"phase"`
	Addresses []netip.Prefix     `json:"addresses,omitempty"`
	MAC       string             `json:"mac,omitempty"`
	Ports     []hook.PortMapping `json:"ports,omitempty"`
	// Drift is how the interface differs from the record.
	Drift []string `json:"drift,omitempty"`
	// NotCompared is why it is unknown whether it does.
	NotCompared string `json:"notCompared,omitempty"`
	// Error is why its teardown failed.
	Error string `json:"error,omitempty"`
}

type counts struct{ networks, allocations, attachments, drifts int }

func (m *Map) count() counts {
	c := counts{networks: len(m.Networks), allocations: len(m.Allocations)}
	for _, n := range m.Networks {
		for _, d := range n.Devices {
			c.drifts += min(1, len(d.Drift))
		}
	}
	for _, a := range m.Allocations {
		c.attachments += len(a.Attachments)
		c.drifts += len(a.Drift)
		for _, n := range a.Attachments {
			c.drifts += len(n.Drift)
		}
	}
	return c
}

// String is such as "2 networks, 1 allocation, 2 attachments".
func (c counts) String() string {
	return fmt.Sprintf("%s, %s, %s", texts.Counted(c.networks, "network"), texts.Counted(c.allocations, "allocation"), texts.Counted(c.attachments, "attachment"))
}

// driftText describes what is wrong. Empty: nothing.
func (c counts) driftText() string {
	if c.drifts == 0 {
		return ""
	}
	return texts.Counted(c.drifts, "difference") + " from the records"
}

// describe is a device in words, such as "bridge web0, up, MTU 1500".
func (d Device) describe() string {
	kind, name := d.Plugin+" on ", cmp.Or(d.Name, "the link of the default route")
	if d.Bridge {
		kind = "bridge "
	}
	words := []string{kind + name}
	switch {
	case d.Drift != "" || d.State == Unknown:
	case d.State == Missing:
		words = append(words, "not created yet")
	default:
		words = append(words, string(d.State))
	}
	if d.MTU > 0 {
		words = append(words, fmt.Sprintf("MTU %d", d.MTU))
	}
	return strings.Join(append(words, texts.Of(d.Addresses)...), ", ")
}

// describe is a network in words, without its pools.
func (n Network) describe() string {
	if n.File == "" {
		return "only on record: no CNI configuration directory has it"
	}
	var words []string
	for _, d := range n.Devices {
		words = append(words, d.describe())
	}
	if len(words) == 0 {
		words = n.Plugins[:min(1, len(n.Plugins))]
	}
	if n.Leases > 0 {
		words = append(slices.Clip(words), texts.Counted(n.Leases, "lease")+" of DHCP")
	}
	return strings.Join(words, "; ")
}

func (n Network) drift() []string {
	var found []string
	for _, d := range n.Devices {
		if d.Drift != "" {
			found = append(found, d.Drift)
		}
	}
	return found
}

// describe is a pool in words, such as "2 of 65533 addresses, 10.88.0.0/16".
func (p Pool) describe() string {
	words := []string{fmt.Sprintf("%d of %s addresses", p.Used, size(p.Total))}
	if p.Plugin == sharedPlugin {
		words[0] += fmt.Sprintf(" in %s of pool %s", texts.Counted(p.Blocks, "block"), p.Name)
	}
	return strings.Join(append(words, texts.Of(p.Subnets)...), ", ")
}

// exactSize is the greatest number that is written as it is.
const exactSize = 1 << 24

// size writes a large number as a power of two.
func size(n *big.Int) string {
	if n.IsInt64() && n.Int64() <= exactSize {
		return n.String()
	}
	more := new(big.Int).Add(n, new(big.Int).Rsh(n, 1)) // rounds to the nearest
	return fmt.Sprintf("2^%d", more.BitLen()-1)
}

// fill returns how much of the pool is used, from 0 to 1.
func (p Pool) fill() float64 {
	if p.Total.Sign() <= 0 {
		return 0
	}
	ratio, _ := new(big.Rat).SetFrac(big.NewInt(int64(p.Used)), p.Total).Float64()
	return min(1, ratio)
}

// cells returns how many of a bar are filled: at least one if an address is used.
func (p Pool) cells(of int) int {
	n := int(p.fill() * float64(of))
	if p.Used > 0 {
		n = max(1, n)
	}
	return n
}

func (a Allocation) owner() string {
	var words []string
	for _, w := range []struct{ what, name string }{
		{"job", a.Identity.Job}, {"group", a.Identity.Group}, {"namespace", a.Identity.Namespace}, {"region", a.Identity.Region},
	} {
		if w.name != "" {
			words = append(words, w.what+" "+w.name)
		}
	}
	return strings.Join(words, ", ")
}

// values are the addresses, ports and task of an attachment, as status prints them.
func (n Attachment) values() []string {
	words := append(texts.Of(n.Addresses), texts.Of(allocation.Ranges(n.Ports))...)
	if n.Task != "" {
		words = append(words, "task "+n.Task)
	}
	return words
}

func (n Attachment) remarks() (wrong, unknown []string) {
	wrong = slices.Clone(n.Drift)
	if n.Error != "" {
		wrong = append(wrong, "teardown failed: "+n.Error)
	}
	if n.NotCompared != "" {
		unknown = []string{"not compared: " + n.NotCompared}
	}
	return wrong, unknown
}

func (a Allocation) remarks() (wrong, unknown []string) {
	if a.NotCompared != "" {
		unknown = []string{"not compared: " + a.NotCompared}
	}
	return a.Drift, unknown
}
