// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package packetfilter

import (
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// message is one of nftables with attributes.
func message(kind uint16, all ...*nl.RtAttr) syscall.NetlinkMessage {
	data := make([]byte, nl.SizeofNfgenmsg)
	for _, a := range all {
		data = append(data, a.Serialize()...)
	}
	return syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | kind}, Data: data}
}

func text(kind int, value string) *nl.RtAttr { return nl.NewRtAttr(kind, nl.ZeroTerminated(value)) }

// hook is that of a chain.
func hook(number uint32) *nl.RtAttr {
	a := nl.NewRtAttr(unix.NFTA_CHAIN_HOOK|unix.NLA_F_NESTED, nil)
	a.AddRtAttr(unix.NFTA_HOOK_HOOKNUM, binary.BigEndian.AppendUint32(nil, number))
	return a
}

// TestIsOfConcern: rules elsewhere change often, and are no reason to look at all of them.
func TestIsOfConcern(t *testing.T) {
	const rule, chain, table = unix.NFT_MSG_NEWRULE, unix.NFT_MSG_NEWCHAIN, unix.NFT_MSG_NEWTABLE
	cut := message(rule, text(unix.NFTA_RULE_TABLE, "filter"), text(unix.NFTA_RULE_CHAIN, "FORWARD"))
	cut.Data = cut.Data[:len(cut.Data)-6]
	other := message(rule, text(unix.NFTA_RULE_TABLE, "filter"), text(unix.NFTA_RULE_CHAIN, "FORWARD"))
	other.Header.Type = unix.NFNL_SUBSYS_CTNETLINK<<8 | rule
	for name, test := range map[string]struct {
		message syscall.NetlinkMessage
		want    bool
	}{
		"a rule beside ours":      {message(rule, text(unix.NFTA_RULE_TABLE, "filter"), text(unix.NFTA_RULE_CHAIN, "FORWARD")), true},
		"one of ours is removed":  {message(unix.NFT_MSG_DELRULE, text(unix.NFTA_RULE_TABLE, "filter"), text(unix.NFTA_RULE_CHAIN, chainName)), true},
		"a rule elsewhere":        {message(rule, text(unix.NFTA_RULE_TABLE, "filter"), text(unix.NFTA_RULE_CHAIN, "CNI-FORWARD")), false},
		"a rule of another table": {message(rule, text(unix.NFTA_RULE_TABLE, "nat"), text(unix.NFTA_RULE_CHAIN, "FORWARD")), false},
		"a chain that forwards":   {message(chain, text(unix.NFTA_CHAIN_NAME, "x"), hook(unix.NF_INET_FORWARD)), true},
		"a chain of input":        {message(chain, text(unix.NFTA_CHAIN_NAME, "x"), hook(unix.NF_INET_LOCAL_IN)), false},
		"a chain without a hook":  {message(chain, text(unix.NFTA_CHAIN_NAME, "FORWARD")), false},
		"firewalld":               {message(table, text(unix.NFTA_TABLE_NAME, "firewalld")), true},
		"another table":           {message(table, text(unix.NFTA_TABLE_NAME, "firewalls")), false},
		"of another subsystem":    {other, false},
		"truncated":               {cut, false},
		"empty":                   {syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | rule}}, false},
	} {
		if got := isOfConcern(test.message); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
