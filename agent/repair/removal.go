// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/kernelevents"
)

// Removal tells that something was removed. The zero value: nothing more is known.
type Removal struct {
	// By is the process that has removed rules. Without a name it is not known.
	By hook.Remover
	// chains are those that lost rules, in the words in which the engine tells of them.
	chains map[string]bool
}

// maxChains is how many of those that a transaction removes are looked at.
const maxChains = 4096

// transaction is one of nftables, of which the kernel is telling.
type transaction struct {
	// chains are those of Removal.
	chains map[string]bool
}

// add notes the chain that a message tells to be removed, or whose rule. iptables has a chain of
// that name in a table of that name.
func (t *transaction) add(m syscall.NetlinkMessage) {
	var table, name uint16
	switch m.Header.Type & 0xff {
	case unix.NFT_MSG_DELRULE:
		table, name = unix.NFTA_RULE_TABLE, unix.NFTA_RULE_CHAIN
	case unix.NFT_MSG_DELCHAIN:
		table, name = unix.NFTA_CHAIN_TABLE, unix.NFTA_CHAIN_NAME
	default:
		return
	}
	if len(m.Data) < nl.SizeofNfgenmsg || len(t.chains) > maxChains {
		return
	}
	if t.chains == nil {
		t.chains = map[string]bool{}
	}
	a := kernelevents.AttributesOf(m.Data[nl.SizeofNfgenmsg:])
	family := familyNames[m.Data[0]]
	t.chains[fmt.Sprintf("%s of table %s %s", a.Text(name), family.nftables, a.Text(table))] = true
	t.chains[fmt.Sprintf("%s of table %s of %s", a.Text(name), a.Text(table), family.iptables)] = true
}

var familyNames = map[byte]struct{ nftables, iptables string }{
	unix.NFPROTO_IPV4: {"ip", "iptables"}, unix.NFPROTO_IPV6: {"ip6", "ip6tables"}, unix.NFPROTO_INET: {"inet", ""},
}

// commit ends the transaction with the kernel's message of its process, which is looked up by the
// number and the name of its thread. It is false if nothing was removed, or by whom is not known.
func (t *transaction) commit(m syscall.NetlinkMessage, lookup func(thread int, name string) (hook.Remover, bool)) (Removal, bool) {
	chains := t.chains
	t.chains = nil
	if len(chains) == 0 || len(m.Data) < nl.SizeofNfgenmsg {
		return Removal{}, false
	}
	a := kernelevents.AttributesOf(m.Data[nl.SizeofNfgenmsg:])
	thread := a[unix.NFTA_GEN_PROC_PID]
	if len(thread) != 4 {
		return Removal{}, false
	}
	by, isKnown := lookup(int(binary.BigEndian.Uint32(thread)), a.Text(unix.NFTA_GEN_PROC_NAME))
	return Removal{By: by, chains: chains}, isKnown
}

// maxRemovers is how many processes are remembered of a chain, the last ones, and told to have removed
// what one attachment lacks.
const maxRemovers = 4

// removals are the processes that were last known to have removed rules, by chain: however often others
// are removed, what is known of a chain stays. They are those since about maxChains chains ago, and those
// of about as many chains before.
type removals struct {
	newer, older map[string][]timedRemover
}

type timedRemover struct {
	hook.Remover

	at time.Time
}

// isLike tells whether another process has the same name and was started by the same program.
func (t timedRemover) isLike(other timedRemover) bool {
	return t.Name == other.Name && t.Parent == other.Parent
}

func (r *removals) add(one Removal, now time.Time) {
	if r.newer == nil || len(r.newer) > maxChains {
		r.newer, r.older = map[string][]timedRemover{}, r.newer
	}
	by := timedRemover{one.By, now}
	for chain := range one.chains {
		others := slices.DeleteFunc(r.newer[chain], by.isLike)
		r.newer[chain] = append(others[max(0, len(others)-maxRemovers+1):], by)
	}
}

// of returns the processes that may have removed what is missing, in the words of the engine, since then:
// they removed rules of the same chains. The newest is the first, and of those with the same name there is one.
func (r *removals) of(missing []string, since time.Time) (by []hook.Remover) {
	var found []timedRemover
	for _, what := range missing {
		_, chain, _ := strings.Cut(what, "chain ")
		chain, _, _ = strings.Cut(chain, ": ") // the rule
		found = append(append(found, r.older[chain]...), r.newer[chain]...)
	}
	slices.Reverse(found)
	found = slices.DeleteFunc(found, func(t timedRemover) bool { return t.at.Before(since) })
	slices.SortStableFunc(found, func(a, b timedRemover) int { return b.at.Compare(a.at) })
	for i, one := range found {
		if len(by) < maxRemovers && !slices.ContainsFunc(found[:i], one.isLike) {
			by = append(by, one.Remover)
		}
	}
	return by
}
