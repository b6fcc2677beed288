// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"context"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/isolation"
)

// Names of the sets that count what is dropped of attachments, and of the chains that drop it: by rules and levels, with the suffix of the
// version of IP, and from guarded ends.
const (
	denied = "denied"
	forged = "forged"
)

// deniedFor leads to the drop of what is denied for a reason.
func deniedFor(reason isolation.Reason) match { return goTo(denied + "-" + string(reason)) }

// deniedChains adds the chains that drop what rules and levels deny. Of both ends that are attachments it is counted.
func (t *table) deniedChains() {
	var counts []netfilter.Rule
	for _, v := range ips {
		set := denied + v.suffix
		t.set(netfilter.KeySet{Name: set, Key: []netfilter.KeyType{netfilter.LinkName, v.address}, Counts: true})
		counts = append(counts,
			rule("counted for the source", v.is(), netfilter.KeyIn(set, true, t.in, v.source())),
			rule("counted for the destination", v.is(), netfilter.KeyIn(set, true, t.out, v.destination())))
	}
	t.chain(denied, "what rules and levels deny", append(counts, rule("denied", drop))...)
	for reason, comment := range map[isolation.Reason]string{
		isolation.ByNarrowing: "0: the job does not leave it", isolation.ByEgress: "2: no rule egress has it", isolation.ByHost: "4: fromHost is false", isolation.ByNetwork: "5: another network", isolation.ByStrict: "5 to 7: to a strict network",
	} {
		t.chain(denied+"-"+string(reason), comment, append(told(reason), rule(comment, goTo(denied)))...)
	}
}

// forgedChain adds the chain that drops what a guarded end may not send.
func (t *table) forgedChain() {
	t.set(netfilter.KeySet{Name: forged, Key: linkSet, Counts: true})
	counts := []netfilter.Rule{rule("counted for the end", netfilter.KeyIn(forged, true, t.in))}
	t.chain(forged, "what no end may send", append(append(counts, told(isolation.Forged)...), rule("forged", drop))...)
}

// CountedAs is by what Denied has an attachment: its ID, or of one that is longer than comments are a shorter text.
func CountedAs(id string) string { return ownerText(id) }

// Denied returns what was dropped of attachments, by CountedAs of their IDs. It is counted from when an attachment is added, and again from 0 when the tables are
// made anew, as after a flush or by another version of allocnet, or when its addresses change. Rules and levels that change leave the counts.
func (Kernel) Denied(ctx context.Context) (map[string]isolation.Denied, error) {
	s, err := netfilter.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return deniedIn(s, hostTables)
}

// deniedIn returns what the sets of tables have counted.
func deniedIn(s *netfilter.Socket, tables []netfilter.Table) (map[string]isolation.Denied, error) {
	all := map[string]isolation.Denied{}
	for i := range tables {
		for _, set := range []string{denied + ip4.suffix, denied + ip6.suffix, forged} {
			found, err := s.Elements(&tables[i], set)
			if err != nil {
				return nil, err
			}
			for _, e := range found {
				d := all[ownerOf(e)]
				if set == forged {
					d.Forged += e.Counted.Packets
				} else {
					d.Packets, d.Bytes = d.Packets+e.Counted.Packets, d.Bytes+e.Counted.Bytes
				}
				all[ownerOf(e)] = d
			}
		}
	}
	delete(all, "") // of several, of which one is gone
	return all, nil
}
