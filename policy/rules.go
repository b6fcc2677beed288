// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/internal/texts"
	"github.com/allocnet/allocnet/isolation"
)

// DefaultFile holds the rules for all networks of a host.
const DefaultFile = "/etc/allocnet/policy.json"

// SourceRouting is a value of Rules.Routing.
const SourceRouting = "source"

// IPv6Off and IPv6LinkLocal are the values of Rules.IPv6.
const (
	IPv6Off       = "off"
	IPv6LinkLocal = "link-local"
)

// MTUFromUplink is a value of Rules.MTUFrom, and PublishBoth one of Rules.Publish.
const (
	MTUFromUplink = "uplink"
	PublishBoth   = "both"
)

// ARPStrict is a value of Rules.ARP, and enforceInside one of Rules.Enforce.
const (
	ARPStrict     = "strict"
	enforceInside = "inside"
)

// ExecutorPlugins is a value of Rules.Executor.
const ExecutorPlugins = "plugins"

// Rules restrict a network to some jobs, and the options that these may choose. The
// zero value has no rules.
type Rules struct {
	// Namespaces are patterns of the namespaces that may attach, as in "team-*"; a
	// pattern that begins with "!" denies. Nil: the host's; an empty list: none.
	Namespaces []string `json:"namespaces,omitempty"`
	// Jobs are patterns of the job IDs that may attach, in the same form.
	Jobs []string `json:"jobs,omitempty"`
	// MaxAttachments is how often one allocation may attach to one network.
	// Nil: the host's, else no limit.
	MaxAttachments *int `json:"maxAttachments,omitempty"`
	// StaticIPs says which addresses a job may choose. Nil: the host's, else
	// those in the ranges of the network's IPAM plugin.
	StaticIPs *StaticIPs `json:"staticIPs,omitempty"`
	// StaticMAC is whether a job may choose the MAC, or the InfiniBand GUID. Nil:
	// the host's, else it may.
	StaticMAC *bool `json:"staticMAC,omitempty"`
	// MTU is whether a job may choose the MTU, from 1280 to the network's. Nil:
	// the host's, else it may.
	MTU *bool `json:"mtu,omitempty"`
	// HostPorts are the ports of the host that a job may choose itself. Nil:
	// the host's, else none; ports that a scheduler assigned need no rule.
	HostPorts []PortRange `json:"hostPorts,omitempty"`
	// HostRange is not a rule: it declares that only this host assigns addresses of
	// the network's host-local ranges. False: other hosts may assign the same
	// addresses. For networks only.
	HostRange bool `json:"hostRange,omitempty"`
	// AcceptRA is not a rule: interfaces on the network accept IPv6 router
	// advertisements. False: they ignore them. For networks only.
	AcceptRA bool `json:"acceptRA,omitempty"`
	// AwaitRA is not a rule: an attachment to the network waits until router advertisements have given its interface an address, which
	// is on record from then on. False: such addresses come and go. For networks with AcceptRA only.
	AwaitRA bool `json:"awaitRA,omitempty"`
	// IPv6 is not a rule: with IPv6Off, interfaces on the network, which gives them no IPv6 addresses, and their ends on the
	// host have no link-local ones either. Empty or IPv6LinkLocal: as the kernel makes them. For networks only.
	IPv6 string `json:"ipv6,omitempty"`
	// ARP is not a rule: with ARPStrict, interfaces on the network answer ARP for their own addresses alone, and ask with them. Empty:
	// as the kernel does, for those of all interfaces of the allocation. For networks only.
	ARP string `json:"arp,omitempty"`
	// Routing is not a rule: with SourceRouting, replies to an address on the network
	// leave by its interface. Empty: by the routes of the allocation. For networks only.
	Routing string `json:"routing,omitempty"`
	// Executor is not a rule: with ExecutorPlugins, the network's plugins are executed even
	// where this process could do their work. Empty: as the engine is configured. For
	// networks only.
	Executor string `json:"executor,omitempty"`
	// EgressAddress is not a rule: packets that leave the host, and that the network masquerades, have these addresses. Nil: those
	// of the interfaces that they leave by. For networks only.
	EgressAddress Egress `json:"egressAddress,omitempty"`
	// MTUFrom is not a rule: with MTUFromUplink, interfaces on the network have the MTU of the default route of the host. Empty: that of
	// the plugin. For networks only.
	MTUFrom string `json:"mtuFrom,omitempty"`
	// Publish is not a rule: with PublishBoth, a port that is published on an address of the host is so on those of the other family
	// of its interface, too. Empty: on the address alone. For networks only.
	Publish string `json:"publish,omitempty"`
	// PublishAddress is not a rule: ports are published on addresses that move with the allocation. Nil: on those of the host. For
	// networks only.
	PublishAddress *PublishAddress `json:"publishAddress,omitempty"`
	// DNS is not a rule: it says whose DNS an allocation gets, "primary", "merge", or the
	// name of one of its networks. On a network it is for the allocations whose primary
	// it is. Empty: the host's, else that of the primary network.
	DNS string `json:"dns,omitempty"`
	// Isolation is how far the network is apart from others. Empty: isolation.None. For networks only.
	Isolation isolation.Level `json:"isolation,omitempty"`
	// Antispoof is whether the host drops what an attachment sends with another address or MAC than its own. Nil: it does where
	// Isolation is not none. For networks only.
	Antispoof *bool `json:"antispoof,omitempty"`
	// FromHost is whether the host reaches attachments that rules of isolation do not let it reach. Nil: it does. For networks only.
	FromHost *bool `json:"fromHost,omitempty"`
	// Enforce says where packets are dropped. With "inside" it is in the namespaces of allocations, for interfaces without an end on the
	// host. Empty: at that end. For networks only.
	Enforce string `json:"enforce,omitempty"`
	// Narrow is whether a job may narrow the traffic of its attachments. For networks only.
	Narrow bool `json:"narrow,omitempty"`
}

// Level is Isolation, or its default.
func (r Rules) Level() isolation.Level { return cmp.Or(r.Isolation, isolation.None) }

// Guards is Antispoof, or its default.
func (r Rules) Guards() bool {
	if r.Antispoof != nil {
		return *r.Antispoof
	}
	return r.Level() != isolation.None
}

// ReachedByHost is FromHost, or its default.
func (r Rules) ReachedByHost() bool { return r.FromHost == nil || *r.FromHost }

// Inside tells whether packets are dropped in the namespaces of allocations.
func (r Rules) Inside() bool { return r.Enforce == enforceInside }

func (s Source) validate() error {
	if err := validatePatterns(map[string][]string{"namespaces": s.Namespaces, "jobs": s.Jobs}); err != nil {
		return fmt.Errorf("policy in %s: %w", s.File, err)
	}
	for _, o := range s.options() {
		if o.value != "" && !slices.Contains(o.words, o.value) {
			return fmt.Errorf("policy in %s: %s %q: want \"%s\", or omit it", s.File, o.key, o.value, strings.Join(o.words, `" or "`))
		}
	}
	switch s.Isolation {
	case "", isolation.None, isolation.Network, isolation.Strict:
	default:
		return fmt.Errorf("policy in %s: isolation %q: want %q, %q or %q", s.File, s.Isolation, isolation.None, isolation.Network, isolation.Strict)
	}
	if s.AwaitRA && !s.AcceptRA {
		return fmt.Errorf("policy in %s: awaitRA true: want acceptRA true, too: without, interfaces ignore router advertisements", s.File)
	}
	if s.Level() == isolation.None && !s.ReachedByHost() {
		return fmt.Errorf("policy in %s: fromHost false: want isolation %q or %q, too: without, others reach what the host does not", s.File, isolation.Network, isolation.Strict)
	}
	if s.Inside() && !s.Isolates() && !s.Narrow {
		return fmt.Errorf("policy in %s: enforce %q: want isolation %q or %q, antispoof true or narrow true, too: without, nothing is enforced", s.File, s.Enforce, isolation.Network, isolation.Strict)
	}
	if s.Inside() && s.FromHost != nil {
		return fmt.Errorf("policy in %s: fromHost %t: omit it with enforce %q: to such attachments the host is as any other machine", s.File, *s.FromHost, s.Enforce)
	}
	if s.MaxAttachments != nil && *s.MaxAttachments < 0 {
		return fmt.Errorf("policy in %s: maxAttachments %d: want 0 or more", s.File, *s.MaxAttachments)
	}
	return nil
}

// option is a key for networks only with its value: empty, or one of some words.
type option struct {
	key, value string
	words      []string
}

func (r Rules) options() []option {
	return []option{
		{"ipv6", r.IPv6, []string{IPv6Off, IPv6LinkLocal}}, {"arp", r.ARP, []string{ARPStrict}}, {"routing", r.Routing, []string{SourceRouting}},
		{"mtuFrom", r.MTUFrom, []string{MTUFromUplink}}, {"publish", r.Publish, []string{PublishBoth}}, {"enforce", r.Enforce, []string{enforceInside}},
	}
}

func validatePatterns(lists map[string][]string) error {
	for key, patterns := range lists {
		for i, pattern := range patterns {
			name := strings.TrimPrefix(pattern, "!")
			if name == "" || name != strings.TrimSpace(name) || strings.HasPrefix(name, "!") { // one that matches nothing denies nothing
				return fmt.Errorf("%s[%d] %q: want a name or a pattern, as in team-* or !team-x", key, i, pattern)
			}
		}
	}
	return nil
}

// Restrict tells whether the rules deny anything that is allowed without rules.
func (r Rules) Restrict() bool {
	denied := func(allowed *bool) bool { return allowed != nil && !*allowed }
	return r.Namespaces != nil || r.Jobs != nil || r.MaxAttachments != nil || r.StaticIPs != nil && (!r.StaticIPs.Allowed || r.StaticIPs.Ranges != nil) || denied(r.StaticMAC) || denied(r.MTU) || r.Isolates()
}

// Isolates tells whether packets are dropped that pass without rules.
func (r Rules) Isolates() bool { return r.Guards() || r.Level() != isolation.None }

// Describe returns the rules as text; without rules it is "unrestricted".
func (r Rules) Describe() string {
	var parts []string
	if r.Namespaces != nil {
		parts = append(parts, "namespaces "+list(r.Namespaces))
	}
	if r.Jobs != nil {
		parts = append(parts, "jobs "+list(r.Jobs))
	}
	if r.MaxAttachments != nil {
		parts = append(parts, fmt.Sprintf("at most %d", *r.MaxAttachments))
	}
	if r.StaticIPs != nil && !r.StaticIPs.Allowed {
		parts = append(parts, "no static IPs")
	}
	if r.StaticIPs != nil && r.StaticIPs.Ranges != nil {
		parts = append(parts, "static IPs "+listOf(r.StaticIPs.Ranges))
	}
	if r.StaticMAC != nil && !*r.StaticMAC {
		parts = append(parts, "no static MAC")
	}
	if r.MTU != nil && !*r.MTU {
		parts = append(parts, "no own MTU")
	}
	if len(r.HostPorts) > 0 {
		parts = append(parts, "host ports "+listOf(r.HostPorts))
	}
	if r.Level() != isolation.None {
		parts = append(parts, "isolation "+string(r.Level()))
	}
	if r.Inside() {
		parts = append(parts, "enforced inside")
	}
	if r.Antispoof != nil {
		parts = append(parts, map[bool]string{true: "antispoof", false: "no antispoof"}[*r.Antispoof])
	}
	if r.EgressAddress != nil {
		parts = append(parts, "egress addresses "+listOf(r.EgressAddress.Addresses()))
	}
	if r.PublishAddress != nil {
		parts = append(parts, "publish addresses "+listOf(r.PublishAddress.Addresses.Addresses()))
	}
	if !r.ReachedByHost() {
		parts = append(parts, "not from the host")
	}
	if r.Narrow {
		parts = append(parts, "jobs may narrow")
	}
	if len(parts) == 0 {
		return "unrestricted"
	}
	return strings.Join(parts, "; ")
}

func list(patterns []string) string {
	if len(patterns) == 0 {
		return "none"
	}
	return strings.Join(patterns, ",")
}

func listOf[T fmt.Stringer](items []T) string { return list(texts.Of(items)) }

// PortRange is ports of the host, as "N" or "N-M".
type PortRange allocation.PortRange

// UnmarshalText reads a range.
func (r *PortRange) UnmarshalText(text []byte) error {
	ports, err := allocation.ParsePortRange(string(text))
	if err != nil {
		return fmt.Errorf("hostPorts %q: want a port or a range from 1 to 65535, as in 20000-20999", text)
	}
	*r = PortRange(ports)
	return nil
}

func (r PortRange) String() string { return allocation.PortRange(r).String() }

// contains tells whether all ports of another range are in this one.
func (r PortRange) contains(ports PortRange) bool {
	return r.First <= ports.First && ports.Last <= r.Last
}
