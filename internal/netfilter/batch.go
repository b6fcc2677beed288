// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"errors"
	"slices"

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

// Batch is a batch of messages that the kernel executes completely or not at all, and what was listed for it.
// The batch of package nftables has no comments on tables and chains.
type Batch struct {
	*Listings

	messages []netlink.Message
	err      error
	// made are the tables that it makes.
	made map[string]bool
	// deleted are the rules that it deletes.
	deleted map[deletedRule]bool
	// again is whether one before it was refused: what was there may be gone.
	again bool
	// unanswered is whether the answer to one before it was lost, so that nothing is echoed.
	unanswered bool
	// isGuarded is whether the kernel refuses the batch if the rules have changed since they were listed.
	isGuarded bool
	// isGuardedAlways is whether it is refused, too, if the rules change all the time: then the error is ERESTART.
	isGuardedAlways bool
	// keySets numbers those that the batch makes.
	keySets uint32
	// echoes are called with the handles of rules that the kernel echoes, in their order.
	echoes []func(handle uint64)
}

// attempts is how often a batch is tried: between listing and removing, another
// process may have removed a rule.
const attempts = 5

// guardedAttempts is how many of them the kernel refuses if there was any change since the
// listing. On a host where rules change all the time, the others are as those of nft.
const guardedAttempts = 2

// Change has the kernel execute a batch, which fill makes of the rules as they are. It is filled again if it fails.
func (s *Socket) Change(fill func(*Batch) error) (err error) {
	for attempt := range attempts {
		b := &Batch{Listings: s.Listings(), made: map[string]bool{}, again: attempt > 0, unanswered: s.unanswered}
		if err = fill(b); err != nil {
			return err
		}
		b.isGuarded = b.isGuarded && (attempt < guardedAttempts || b.isGuardedAlways)
		if err = s.send(b); err == nil {
			return nil
		}
		s.unanswered = s.unanswered || errors.Is(err, unix.ENOBUFS)
	}
	return err
}

// IsUnanswered tells whether the answer to a batch before it was lost: the kernel may have executed that one, and has the rules then.
func (b *Batch) IsUnanswered() bool { return b.unanswered }

// MakeTable makes what all attachments share, once. Rules that are as they have to be stay as they
// are: the kernel waits for packets in flight where it removes any.
func (b *Batch) MakeTable(table *Table) error {
	if b.made[table.key()] {
		return nil
	}
	b.made[table.key()] = true
	if !b.again && b.isMade(table) {
		return nil
	}
	b.AddTable(table)
	for i := range table.Chains {
		chain := &table.Chains[i]
		b.AddChain(table, chain)
		if chain.Rules == nil {
			continue
		}
		existing, err := b.Of(table, chain.Name)
		if err != nil {
			return err
		}
		if SameRules(existing, chain.Rules, table.Family) {
			continue
		}
		b.FlushChain(table, chain.Name)
		for _, rule := range chain.Rules {
			b.addRule(table, rule)
		}
	}
	return nil
}

// isMade tells whether a table is awake and has its chains, with what is shared. To make a chain that is there is a change, too, and who closes a
// connection after that, while all other changes wait, waits for packets in flight.
func (b *Batch) isMade(table *Table) bool {
	dormant, err := b.IsDormant(table)
	return err == nil && !dormant && !slices.ContainsFunc(table.Chains, func(c Chain) bool { return !b.hasMade(table, &c) })
}

func (b *Batch) hasMade(t *Table, c *Chain) bool {
	found, err := b.chain(t, c.Name)
	if err != nil || found == nil || !c.isAt(found) {
		return false
	}
	if c.Rules == nil {
		return true
	}
	existing, err := b.Of(t, c.Name)
	return err == nil && SameRules(existing, c.Rules, t.Family)
}

// isAt tells whether packets enter a chain that was found where they have to.
func (c *Chain) isAt(found []byte) bool {
	hook := valueOf(found, unix.NFTA_CHAIN_HOOK)
	if c.Hook == nil || hook == nil {
		return c.Hook == nil && hook == nil
	}
	return stringOf(found, unix.NFTA_CHAIN_TYPE) == c.Hook.kind() &&
		numberOf(hook, unix.NFTA_HOOK_HOOKNUM) == uint32(*c.Hook.Number) && numberOf(hook, unix.NFTA_HOOK_PRIORITY) == uint32(*c.Hook.Priority)
}

// Guard has the kernel refuse the batch if there was any change since now, as long as the rules do not change all the time.
func (b *Batch) Guard() {
	b.begin()
	b.isGuarded = true
}

// GuardAlways is Guard, also if the rules change all the time: then the batch fails.
func (b *Batch) GuardAlways() {
	b.Guard()
	b.isGuardedAlways = true
}

// DeleteTable deletes a table that is there.
func (b *Batch) DeleteTable(t *Table) {
	b.add(unix.NFT_MSG_DELTABLE, 0, t.Family, []netlink.Attribute{text(unix.NFTA_TABLE_NAME, t.Name)})
}

// SetRules replaces the rules of a chain that is there by then. To add one that is there is a change, too, after which who closes the connection waits for packets
// in flight.
func (b *Batch) SetRules(t *Table, c *Chain) {
	b.FlushChain(t, c.Name)
	for _, rule := range c.Rules {
		b.addRule(t, rule)
	}
}

// ReplaceTable makes a table anew with all that it has, or only deletes the present one.
func (b *Batch) ReplaceTable(t *Table, remove bool) {
	b.AddTable(t) // there is one to delete
	b.DeleteTable(t)
	if !remove {
		b.newTable(t)
	}
}

func (b *Batch) newTable(t *Table) {
	b.AddTable(t)
	for i := range t.Sets {
		b.AddKeySet(t, &t.Sets[i].KeySet)
		b.AddElements(t, t.Sets[i].Name, t.Sets[i].Elements)
	}
	for i := range t.Chains {
		b.AddChain(t, &t.Chains[i])
		for _, rule := range t.Chains[i].Rules {
			b.addRule(t, rule)
		}
	}
}

// AddTable makes a table, without what is in it, unless it is there.
func (b *Batch) AddTable(t *Table) {
	b.add(unix.NFT_MSG_NEWTABLE, netlink.Create, t.Family, withComment([]netlink.Attribute{
		text(unix.NFTA_TABLE_NAME, t.Name),
		number(unix.NFTA_TABLE_FLAGS, 0),
	}, nftaTableUserdata, t.Comment))
}

// kind is the type of a chain that is there.
func (h *Hook) kind() string {
	if h.Filters {
		return string(nftables.ChainTypeFilter)
	}
	return string(nftables.ChainTypeNAT)
}

// AddChain makes a chain without its rules, unless it is there.
func (b *Batch) AddChain(t *Table, c *Chain) {
	attrs := []netlink.Attribute{
		text(unix.NFTA_CHAIN_TABLE, t.Name),
		text(unix.NFTA_CHAIN_NAME, c.Name),
	}
	if c.Hook != nil {
		attrs = append(attrs, text(unix.NFTA_CHAIN_TYPE, c.Hook.kind()), b.nested(unix.NFTA_CHAIN_HOOK,
			number(unix.NFTA_HOOK_HOOKNUM, uint32(*c.Hook.Number)),
			number(unix.NFTA_HOOK_PRIORITY, uint32(*c.Hook.Priority))))
	}
	b.add(unix.NFT_MSG_NEWCHAIN, netlink.Create, t.Family, withComment(attrs, nftaChainUserdata, c.Comment))
}

// FlushChain removes all rules of a chain.
func (b *Batch) FlushChain(t *Table, chain string) {
	b.add(unix.NFT_MSG_DELRULE, 0, t.Family, t.chain(chain))
}

// DeleteChain deletes a chain that is empty by then.
func (b *Batch) DeleteChain(t *Table, chain string) {
	b.add(unix.NFT_MSG_DELCHAIN, 0, t.Family, []netlink.Attribute{
		text(unix.NFTA_CHAIN_TABLE, t.Name),
		text(unix.NFTA_CHAIN_NAME, chain),
	})
}

// DeleteRule deletes a rule that was listed. A handle belongs to another rule when the table has
// been made anew meanwhile, as a reload of all rules does. Two plugins of an attachment may find the same one.
func (b *Batch) DeleteRule(t *Table, chain string, rule ListedRule) {
	place := deletedRule{Place(t, chain), rule.Handle}
	if b.deleted[place] {
		return
	}
	if b.deleted == nil {
		b.deleted = map[deletedRule]bool{}
	}
	b.deleted[place] = true
	b.isGuarded = true
	b.add(unix.NFT_MSG_DELRULE, 0, t.Family, t.chain(chain, handleOf(rule.Handle)))
}

type deletedRule struct {
	place  string
	handle uint64
}

func handleOf(rule uint64) netlink.Attribute {
	return netlink.Attribute{Type: unix.NFTA_RULE_HANDLE, Data: binaryutil.BigEndian.PutUint64(rule)}
}

// addRule appends a rule to its chain.
func (b *Batch) addRule(t *Table, rule Rule) {
	exprs := b.nested(unix.NFTA_RULE_EXPRESSIONS, b.expressions(t.Family, rule.Exprs)...)
	b.add(unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append, t.Family, withComment(t.chain(rule.Chain, exprs), unix.NFTA_RULE_USERDATA, rule.Comment))
}

// mostEchoes is how many rules of a batch the kernel echoes: more would not fit into the socket beside the answer.
const mostEchoes = 32

// AddEchoedRule appends a rule to its chain. made is called with its handle when the batch is executed, unless that has more rules
// than are echoed, or echoes were lost: then no handle is known.
func (b *Batch) AddEchoedRule(t *Table, rule Rule, made func(handle uint64)) {
	b.addRule(t, rule)
	if b.echoes = append(b.echoes, made); len(b.echoes) <= mostEchoes && !b.unanswered {
		b.messages[len(b.messages)-1].Header.Flags |= netlink.Echo
	}
}

func (b *Batch) expressions(family Family, exprs []expr.Any) []netlink.Attribute {
	attrs := make([]netlink.Attribute, len(exprs))
	for i, e := range exprs {
		data, err := expr.Marshal(byte(numbers[family]), e)
		b.fail(err)
		attrs[i] = netlink.Attribute{Type: unix.NLA_F_NESTED | unix.NFTA_LIST_ELEM, Data: data}
	}
	return attrs
}

func (b *Batch) add(kind int, flags netlink.HeaderFlags, family Family, attrs []netlink.Attribute) {
	data, err := netlink.MarshalAttributes(attrs)
	b.fail(err)
	b.messages = append(b.messages, message(kind, flags, family, data))
}

func (b *Batch) nested(kind uint16, attrs ...netlink.Attribute) netlink.Attribute {
	data, err := netlink.MarshalAttributes(attrs)
	b.fail(err)
	return netlink.Attribute{Type: unix.NLA_F_NESTED | kind, Data: data}
}

func (b *Batch) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func message(kind int, flags netlink.HeaderFlags, family Family, data []byte) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{
			Type:  netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind),
			Flags: netlink.Request | flags,
		},
		Data: append([]byte{byte(numbers[family]), unix.NFNETLINK_V0, 0, 0}, data...),
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
