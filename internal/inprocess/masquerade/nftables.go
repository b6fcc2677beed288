// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package masquerade

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/containernetworking/plugins/pkg/utils"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/netfilter"
)

const masqueradeChain = "masq_checks"

var masqueradeTable = &netfilter.Table{
	Family:  netfilter.INet,
	Name:    "cni_plugins_masquerade",
	Comment: "Masquerading for plugins from github.com/containernetworking/plugins",
	Chains: []netfilter.Chain{{
		Name:    masqueradeChain,
		Comment: "Masquerade traffic from certain IPs to any (non-multicast) IP outside their subnet",
	}, {
		Name: "postrouting",
		Hook: &netfilter.Hook{Number: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource},
		Rules: []netfilter.Rule{
			{Chain: "postrouting", Exprs: returnMulticast(net.IPv4(224, 0, 0, 0), net.CIDRMask(4, 32))},
			{Chain: "postrouting", Exprs: returnMulticast(net.ParseIP("ff00::"), net.CIDRMask(8, 128))},
			{Chain: "postrouting", Exprs: netfilter.Verdict(expr.VerdictGoto, masqueradeChain)},
		},
	}},
}

func returnMulticast(ip net.IP, mask net.IPMask) []expr.Any {
	network := net.IPNet{IP: ip, Mask: mask}
	return slices.Concat(netfilter.FamilyMatch(ip), netfilter.DestinationMatch(expr.CmpOpEq, network), netfilter.Verdict(expr.VerdictReturn, ""))
}

// nftables returns the rules. They belong to the attachment by a hash in their comment.
func (m attachment) nftables() *rules.NFTables {
	hash := utils.MustFormatHashWithPrefix(16, "", m.network) + "-" + utils.MustFormatHashWithPrefix(16, "", m.ifName+":"+m.containerID)
	r := &rules.NFTables{
		Table:   masqueradeTable,
		Chains:  []string{masqueradeChain},
		Owns:    func(comment string) bool { return strings.HasPrefix(comment, hash) },
		Replace: true,
	}
	for _, network := range m.networks {
		translation, text := m.translation(network.IP)
		r.Rules = append(r.Rules, netfilter.Rule{
			Chain:   masqueradeChain,
			Comment: m.comment(hash),
			Text:    fmt.Sprintf("%[1]s saddr %[2]s %[1]s daddr != %[3]s %[4]s", netfilter.FamilyOf(network.IP), network.IP, &net.IPNet{IP: network.IP.Mask(network.Mask), Mask: network.Mask}, text),
			Exprs: slices.Concat(
				netfilter.FamilyMatch(network.IP),
				netfilter.SourceMatch(expr.CmpOpEq, links.HostNetwork(network.IP)),
				netfilter.DestinationMatch(expr.CmpOpNeq, network),
				translation,
			),
		})
	}
	return r
}

// translation returns what gives packets of an address another one, and what nft prints for it.
func (m attachment) translation(ip net.IP) (exprs []expr.Any, text string) {
	egress := m.Egress.of(ip)
	if !egress.IsValid() {
		return []expr.Any{&expr.Masq{}}, "masquerade"
	}
	return netfilter.SNAT(egress.AsSlice()), fmt.Sprintf("snat %s to %s", netfilter.FamilyOf(ip), egress)
}

func (m attachment) comment(hash string) string {
	unquoted := strings.NewReplacer(`"`, "")
	comment := fmt.Sprintf("%s, net: %s, if: %s, id: %s", hash,
		unquoted.Replace(m.network), unquoted.Replace(m.ifName), unquoted.Replace(m.containerID))
	return comment[:min(len(comment), rules.MaxComment)]
}
