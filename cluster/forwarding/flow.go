// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
)

// Flow is a new one between two addresses.
type Flow struct {
	// Hook is where the host filters its packets: Forward, Input or Output.
	Hook string
	// From and To are its addresses, and FromLink and ToLink the interfaces of this host. What is not valid, or empty, is not known.
	From, To         netip.Addr
	FromLink, ToLink string
	// Bridge is the bridge that forwards it. Empty: the host routes it.
	Bridge string
	// Protocol is tcp, udp, sctp or icmp, and Port the destination's.
	Protocol string
	Port     uint16
	// IsPublished is whether its source has sent to a published port, and Asked that port, with the address if it is known.
	IsPublished bool
	Asked       netip.AddrPort
}

// Fate is what becomes of the first packet of a flow by the rules of a host. Without drops and doubts it passes.
type Fate struct {
	// Drops are the rules and policies that drop it for certain.
	Drops []string
	// Doubts are rules that may drop it, or may not, and rules that could not be read.
	Doubts []string
}

// noLink is the name of no interface: rules about one are not met.
const noLink = "/"

// ownLink is the interface by which the host gets what it sends to itself: it filters that twice.
const ownLink = "lo"

// FateOf follows the first packet of a flow through the filters of which CollectFilters has read the rules. An accept in one chain does not
// override a drop in another.
func (f *Facts) FateOf(flow Flow) Fate {
	var fate Fate
	for _, table := range f.bridgeTables {
		if flow.Bridge != "" && table.forwards || table.arrives && isBridge(flow.FromLink) {
			fate.Doubts = append(fate.Doubts, fmt.Sprintf("rules of the nft table bridge %s are not read", table.name))
		}
	}
	if flow.Bridge != "" && !isFiltered(flow.Bridge, flow.To.Is6()) {
		return fate
	}
	for _, s := range f.rulesets {
		if !s.sees(flow.packet().source.prefix) {
			continue
		}
		if flow.Hook != Output {
			for _, chain := range s.base[prerouting] {
				s.follows(chain, flow.arriving(s.priorities[chain]), &fate)
			}
		}
		if flow.Hook == Input && flow.FromLink == ownLink {
			sent := flow
			sent.Hook, sent.ToLink = Output, ownLink
			for _, chain := range s.base[Output] {
				s.follows(chain, sent.packet(), &fate)
			}
		}
		for _, chain := range s.base[flow.Hook] {
			s.follows(chain, flow.packet(), &fate)
		}
	}
	for _, err := range f.Unread {
		fate.Doubts = append(fate.Doubts, err.Error())
	}
	return fate
}

// follows adds what a chain does with a packet.
func (s *ruleset) follows(chain string, p *packet, fate *Fate) {
	v, text := s.decide(chain, p)
	doubt := slices.IndexFunc(p.uncertain, func(r rule) bool {
		return r.verdict != v && (v == dropped || r.verdict != accepted)
	})
	switch {
	case doubt >= 0:
		fate.Doubts = append(fate.Doubts, fmt.Sprintf("%s has a match or a statement that is not read (%s)", p.uncertain[doubt].text, s.name))
	case v == dropped:
		fate.Drops = append(fate.Drops, fmt.Sprintf("%s (%s)", text, s.name))
	}
}

func (f Flow) packet() *packet {
	p := &packet{
		source: f.side(f.From), destination: f.side(f.To), from: f.FromLink, to: []string{f.ToLink},
		protocol: f.Protocol, port: f.Port, isTranslated: f.IsPublished,
	}
	switch f.Hook {
	case Input:
		p.to = nil
	case Output:
		p.from = noLink
	}
	return p
}

// Priorities of prerouting at which the kernel begins to track connections, and translates destinations.
const (
	tracking    = -200
	translation = -100
)

// arriving is the packet as a chain of prerouting sees it.
func (f Flow) arriving(priority int) *packet {
	p := f.packet()
	p.to, p.isUntracked = nil, priority <= tracking
	if !f.IsPublished || priority > translation {
		return p
	}
	p.isTranslated, p.port, p.destination = false, f.Asked.Port(), f.side(f.Asked.Addr())
	if !f.Asked.Addr().IsValid() && !f.To.Is6() {
		p.destination.except = loopback // it is not reached from elsewhere
	}
	return p
}

var loopback = netip.MustParsePrefix("127.0.0.0/8")

// side is an address, or any if that is not known.
func (f Flow) side(a netip.Addr) side {
	if a.IsValid() {
		return side{prefix: netip.PrefixFrom(a, a.BitLen())}
	}
	return side{prefix: everything(f.To.Is6() || f.From.Is6())}
}

func isBridge(link string) bool {
	_, err := os.Stat("/sys/class/net/" + link + "/bridge")
	return link != "" && err == nil
}

// isFiltered tells whether a bridge gives what it forwards to the rules of IP.
func isFiltered(bridge string, isIPv6 bool) bool {
	tables := "iptables"
	if isIPv6 {
		tables = "ip6tables"
	}
	for _, file := range []string{"/proc/sys/net/bridge/bridge-nf-call-" + tables, "/sys/class/net/" + bridge + "/bridge/nf_call_" + tables} {
		if value, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(value)) == "1" {
			return true
		}
	}
	return false
}

// LinkTo returns the interface by which the host sends to an address; empty if it is not known.
func LinkTo(a netip.Addr) string {
	routes, err := netlink.RouteGet(a.AsSlice())
	if err != nil || len(routes) == 0 {
		return ""
	}
	link, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return ""
	}
	return link.Attrs().Name
}
