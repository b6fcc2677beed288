// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package portmap

import (
	"fmt"
	"iter"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/containernetworking/plugins/pkg/utils"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/netfilter"
)

// Chains that all attachments with published ports use.
const (
	hostportChain     = "CNI-HOSTPORT-DNAT"
	hostportMarkChain = "CNI-HOSTPORT-SETMARK"
	hostportMasqChain = "CNI-HOSTPORT-MASQ"
)

// maxPorts is how many ports a rule of multiport may have.
const maxPorts = 15

func (conf *config) iptables(address net.IPNet) *rules.IPTables {
	r := conf.iptablesCalls(address.IP)
	calls := r.Rules
	r.Rules = nil
	if conf.snat() && conf.ExternalSetMarkChain == nil {
		r.Shared = append(r.Shared, masqueradeGroup(*conf.MarkMasqBit))
	}
	r.Shared = append(r.Shared, rules.Group{
		Chains: []string{hostportChain},
		Rules: []rules.Rule{
			{Chain: "PREROUTING", Args: []string{"-m", "addrtype", "--dst-type", "LOCAL", "-j", hostportChain}, Seen: netfilter.AllTo(hostportChain, "addrtype")},
			{Chain: "OUTPUT", Args: []string{"-m", "addrtype", "--dst-type", "LOCAL", "-j", hostportChain}, Seen: netfilter.AllTo(hostportChain, "addrtype")},
		},
	})
	for _, mapping := range conf.RuntimeConfig.PortMappings {
		if mapping.applies(address.IP) {
			conf.addMapping(r, mapping, address)
		}
	}
	for _, call := range calls {
		r.Add(call)
	}
	return r
}

// masqueradeGroup masquerades packets with a mark, before plugins masquerade others.
func masqueradeGroup(bit int) rules.Group {
	value := uint32(1) << bit
	mark := fmt.Sprintf("%#x/%#x", value, value)
	group := rules.Group{
		Chains: []string{hostportMarkChain, hostportMasqChain},
		Rules: []rules.Rule{
			{Chain: hostportMarkChain, Args: []string{"-m", "comment", "--comment", "CNI portfwd masquerade mark", "-j", "MARK", "--set-xmark", mark}},
			{Chain: hostportMasqChain, Args: []string{"-m", "mark", "--mark", mark, "-j", "MASQUERADE"}},
			{Chain: "POSTROUTING", First: true, Args: []string{"-m", "comment", "--comment", "CNI portfwd requiring masquerade", "-j", hostportMasqChain}, Seen: netfilter.AllTo(hostportMasqChain, "comment")},
		},
	}
	if bit == defaultMarkBit { // the bytes of others are also those of sizes and registers
		group.Rules[0].Seen, group.Rules[1].Seen = netfilter.WithMark(value), netfilter.WithMark(value)
	}
	return group
}

// addMapping adds the rules of one port: marks for connections from the attachment itself and
// from this host, then the translation.
func (conf *config) addMapping(r *rules.IPTables, mapping mapping, address net.IPNet) {
	match := []string{"-p", mapping.Protocol, "--dport", mapping.iptablesPorts()}
	if mapping.bound() {
		match = append(match, "-d", mapping.HostIP)
	}
	add := func(args ...string) {
		r.Add(rules.Rule{Chain: r.Chain, Args: append(slices.Clone(match), args...)})
	}
	if conf.snat() {
		mark := hostportMarkChain
		if conf.ExternalSetMarkChain != nil {
			mark = *conf.ExternalSetMarkChain
		}
		sources := []string{address.String()}
		switch {
		case conf.MasqAll && links.IsIPv4(address.IP):
			sources = []string{"0.0.0.0/0"}
		case conf.MasqAll:
			sources = []string{"::/0"}
		case links.IsIPv4(address.IP):
			sources = append(sources, "127.0.0.1")
		}
		for _, source := range sources {
			add("-s", source, "-j", mark)
		}
	}
	target := address.IP.String()
	if mapping.isRange() {
		add("-j", "DNAT", "--to-destination", target) // which leaves the port
		return
	}
	if !links.IsIPv4(address.IP) {
		target = "[" + target + "]"
	}
	add("-j", "DNAT", "--to-destination", target+":"+strconv.Itoa(mapping.ContainerPort))
}

// iptablesPorts are the ports of the host as iptables has them.
func (m mapping) iptablesPorts() string {
	if m.isRange() {
		return fmt.Sprintf("%d:%d", m.HostPort, m.last())
	}
	return strconv.Itoa(m.HostPort)
}

// iptablesCalls returns the chain of the attachment with what leads to it: the ports of all
// mappings, whatever their host IP.
func (conf *config) iptablesCalls(ip net.IP) *rules.IPTables {
	r := &rules.IPTables{
		Family: netfilter.FamilyOf(ip), Table: "nat",
		Chain:   utils.MustFormatChainNameWithPrefix(conf.network, conf.containerID, "DN-"),
		Comment: truncateComment(fmt.Sprintf(`dnat name: "%s" id: "%s"`, conf.network, conf.containerID)), //nolint:gocritic // %q would escape
	}
	ports := map[string][]string{}
	for _, mapping := range conf.RuntimeConfig.PortMappings {
		ports[mapping.Protocol] = append(ports[mapping.Protocol], mapping.iptablesPorts())
	}
	for _, protocol := range slices.Sorted(maps.Keys(ports)) {
		for some := range chunks(ports[protocol]) {
			args := []string{"-m", "comment", "--comment", r.Comment, "-m", "multiport", "-p", protocol, "--destination-ports", strings.Join(some, ",")}
			args = append(append(args, conf.conditions(ip)...), "-j", r.Chain)
			r.Add(rules.Rule{Chain: hostportChain, Args: args})
		}
	}
	return r
}

// chunks divides ports among rules of multiport, for which a range counts twice.
func chunks(ports []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		begin, count := 0, 0
		for i, port := range ports {
			weight := 1 + strings.Count(port, ":")
			if count+weight > maxPorts {
				if !yield(ports[begin:i]) {
					return
				}
				begin, count = i, 0
			}
			count += weight
		}
		if begin < len(ports) {
			yield(ports[begin:])
		}
	}
}

// truncateComment shortens a comment to what iptables accepts.
func truncateComment(comment string) string {
	if len(comment) <= 255 {
		return comment
	}
	return comment[:253] + "..."
}
