// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Attributes of <linux/netfilter/nf_tables.h> that package unix lacks.
const (
	nftaTableUserdata = 6
	nftaChainUserdata = 12
)

// nftablesBatch is a batch of messages that the kernel executes completely or not at all.
// The batch of package nftables has no comments on tables and chains.
type nftablesBatch struct {
	messages []netlink.Message
	err      error
	// generation is that of the rules when they were listed, if there are handles of rules in
	// the batch: the kernel refuses it if they have changed. 0: it does not.
	generation uint32
}

func (b *nftablesBatch) addTable(t *nftablesTable) {
	b.add(unix.NFT_MSG_NEWTABLE, netlink.Create, t.family, withComment([]netlink.Attribute{
		text(unix.NFTA_TABLE_NAME, t.name),
		number(unix.NFTA_TABLE_FLAGS, 0),
	}, nftaTableUserdata, t.comment))
}

func (b *nftablesBatch) addChain(t *nftablesTable, c *nftablesChain) {
	attrs := []netlink.Attribute{
		text(unix.NFTA_CHAIN_TABLE, t.name),
		text(unix.NFTA_CHAIN_NAME, c.name),
	}
	if c.hook != nil {
		kind := nftables.ChainTypeNAT
		if c.hook.filters {
			kind = nftables.ChainTypeFilter
		}
		attrs = append(attrs, text(unix.NFTA_CHAIN_TYPE, string(kind)), b.nested(unix.NFTA_CHAIN_HOOK,
			number(unix.NFTA_HOOK_HOOKNUM, uint32(*c.hook.number)),
			number(unix.NFTA_HOOK_PRIORITY, uint32(*c.hook.priority))))
	}
	b.add(unix.NFT_MSG_NEWCHAIN, netlink.Create, t.family, withComment(attrs, nftaChainUserdata, c.comment))
}

func (b *nftablesBatch) flushChain(t *nftablesTable, chain string) {
	b.add(unix.NFT_MSG_DELRULE, 0, t.family, []netlink.Attribute{
		text(unix.NFTA_RULE_TABLE, t.name),
		text(unix.NFTA_RULE_CHAIN, chain),
	})
}

func (b *nftablesBatch) deleteChain(t *nftablesTable, chain string) {
	b.add(unix.NFT_MSG_DELCHAIN, 0, t.family, []netlink.Attribute{
		text(unix.NFTA_CHAIN_TABLE, t.name),
		text(unix.NFTA_CHAIN_NAME, chain),
	})
}

func (b *nftablesBatch) deleteRule(t *nftablesTable, chain string, handle uint64) {
	b.add(unix.NFT_MSG_DELRULE, 0, t.family, []netlink.Attribute{
		text(unix.NFTA_RULE_TABLE, t.name),
		text(unix.NFTA_RULE_CHAIN, chain),
		{Type: unix.NFTA_RULE_HANDLE, Data: binaryutil.BigEndian.PutUint64(handle)},
	})
}

// addRule appends a rule to its chain.
func (b *nftablesBatch) addRule(t *nftablesTable, rule nftablesRule) {
	b.add(unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append, t.family, withComment([]netlink.Attribute{
		text(unix.NFTA_RULE_TABLE, t.name),
		text(unix.NFTA_RULE_CHAIN, rule.chain),
		b.nested(unix.NFTA_RULE_EXPRESSIONS, b.expressions(t.family, rule.exprs)...),
	}, unix.NFTA_RULE_USERDATA, rule.comment))
}

func (b *nftablesBatch) expressions(family nftables.TableFamily, exprs []expr.Any) []netlink.Attribute {
	attrs := make([]netlink.Attribute, len(exprs))
	for i, e := range exprs {
		data, err := expr.Marshal(byte(family), e)
		b.fail(err)
		attrs[i] = netlink.Attribute{Type: unix.NLA_F_NESTED | unix.NFTA_LIST_ELEM, Data: data}
	}
	return attrs
}

func (b *nftablesBatch) add(kind int, flags netlink.HeaderFlags, family nftables.TableFamily, attrs []netlink.Attribute) {
	data, err := netlink.MarshalAttributes(attrs)
	b.fail(err)
	b.messages = append(b.messages, nftablesMessage(kind, flags, family, data))
}

func (b *nftablesBatch) nested(kind uint16, attrs ...netlink.Attribute) netlink.Attribute {
	data, err := netlink.MarshalAttributes(attrs)
	b.fail(err)
	return netlink.Attribute{Type: unix.NLA_F_NESTED | kind, Data: data}
}

// fail keeps the first error.
func (b *nftablesBatch) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func nftablesMessage(kind int, flags netlink.HeaderFlags, family nftables.TableFamily, data []byte) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{
			Type:  netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind),
			Flags: netlink.Request | flags,
		},
		Data: append([]byte{byte(family), unix.NFNETLINK_V0, 0, 0}, data...),
	}
}

// withComment adds a comment in the form of nft: all objects have the same type for it.
func withComment(attrs []netlink.Attribute, kind uint16, comment string) []netlink.Attribute {
	if comment == "" {
		return attrs
	}
	return append(attrs, netlink.Attribute{Type: kind, Data: userdata.AppendString(nil, userdata.TypeComment, comment)})
}

func text(kind uint16, value string) netlink.Attribute {
	return netlink.Attribute{Type: kind, Data: append([]byte(value), 0)}
}

func number(kind uint16, value uint32) netlink.Attribute {
	return netlink.Attribute{Type: kind, Data: binaryutil.BigEndian.PutUint32(value)}
}
