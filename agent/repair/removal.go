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

// explains tells whether a removal may have taken something that is missing, in the words of the
// engine: it took rules of the same chain.
func (r Removal) explains(missing []string) bool {
	return slices.ContainsFunc(missing, func(what string) bool {
		_, chain, _ := strings.Cut(what, "chain ")
		chain, _, _ = strings.Cut(chain, ": ") // the rule
		return r.chains[chain]
	})
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

// familyNames are what programs call the families of nftables.
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

// maxRemovals is how many removals are remembered, the newest.
const maxRemovals = 64

// removals are those that are known, the oldest first.
type removals []timedRemoval

type timedRemoval struct {
	Removal

	at time.Time
}

// add remembers a removal.
func (r *removals) add(one Removal, now time.Time) {
	*r = append((*r)[max(0, len(*r)-maxRemovals+1):], timedRemoval{one, now})
}

// maxRemovers is how many processes are told to have removed what one attachment lacks.
const maxRemovers = 4

// of returns the processes that may have removed what is missing since then, the newest first, and of
// those with the same name, one.
func (r removals) of(missing []string, since time.Time) (by []hook.Remover) {
	for _, one := range slices.Backward(r) {
		isTold := slices.ContainsFunc(by, func(b hook.Remover) bool { return b.Name == one.By.Name && b.Parent == one.By.Parent })
		if !one.at.Before(since) && !isTold && len(by) < maxRemovers && one.explains(missing) {
			by = append(by, one.By)
		}
	}
	return by
}
