// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam/peers"
)

// decided returns which blocks are accepted.
func decided(t *testing.T, a *acceptor, networks []netip.Prefix, all ...peers.Remote) string {
	t.Helper()
	verdicts, _ := a.decide(t.Context(), all, networks)
	var texts []string
	for _, r := range all {
		switch v := verdicts[r.Block]; {
		case v.accepted:
			texts = append(texts, "yes")
		case v.pending:
			texts = append(texts, "pending")
		default:
			texts = append(texts, "no: "+v.reason)
		}
	}
	return strings.Join(texts, "; ")
}

// TestAccept: an address that is not the node's by Nomad's word, or in a configured network, gets
// no route.
func TestAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNomad{}
		n.set(nil, node("n1", "10.0.0.2"), node("n2", "10.0.0.3"))
		networks := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
		for _, test := range []struct {
			id, address, want string
			networks          []netip.Prefix
		}{
			{"n1", "10.0.0.2", "yes", nil},
			{"n1", "10.0.0.3", "no: 10.0.0.3 is no address that Nomad has of node n1, which are [10.0.0.2]: if it is one, add its network to node_networks in the block cluster", nil},
			{"n1", "10.1.0.2", "no: 10.1.0.2 is no address that Nomad has of node n1, which are [10.0.0.2]: if it is one, add its network to node_networks in the block cluster", nil},
			{"n1", "10.1.0.2", "yes", networks},
			{"n9", "10.1.0.2", `no: nomad knows no node "n9"`, networks},
			{"n9", "10.0.0.2", `no: nomad knows no node "n9"`, nil},
			{"", "10.0.0.2", "no: its host is no node of Nomad in this region", networks},
		} {
			got := decided(t, newAcceptor(n), test.networks, block("10.91.0.0/26", test.id, test.address, 1))
			requireText(t, test.id+" at "+test.address, got, test.want)
		}
	})
}

// TestAcceptedStays: Nomad forgets a node before its blocks are reclaimed; a block that was
// accepted keeps its route until its content changes.
func TestAcceptedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNomad{}
		n.set(nil, node("n1", "10.0.0.2"))
		a := newAcceptor(n)
		requireText(t, "known", decided(t, a, nil, block("10.91.0.0/26", "n1", "10.0.0.2", 1)), "yes")
		n.set(nil)
		time.Sleep(time.Hour)
		n.questions()
		requireText(t, "forgotten", decided(t, a, nil, block("10.91.0.0/26", "n1", "10.0.0.2", 1)), "yes")
		requireText(t, "questions about what did not change", n.questions(), "")
		requireText(t, "changed", decided(t, a, nil, block("10.91.0.0/26", "n1", "10.0.0.2", 2)), `no: nomad knows no node "n1"`)
		requireText(t, "as before", decided(t, a, nil, block("10.91.0.0/26", "n1", "10.0.0.2", 1)), `no: nomad knows no node "n1"`)
	})
}

// TestAcceptedNetwork: what only a configured network allowed is refused when it is not
// configured any more.
func TestAcceptedNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNomad{}
		n.set(nil, node("n1", "10.0.0.2"))
		a, b := newAcceptor(n), block("10.91.0.0/26", "n1", "10.1.0.2", 1)
		requireText(t, "configured", decided(t, a, []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}, b), "yes")
		if got := decided(t, a, nil, b); !strings.HasPrefix(got, "no: ") {
			t.Errorf("not configured: %s", got)
		}
	})
}

// TestReplaced: hosts that have one address by Nomad's word are all sent their packets there: one
// that lost its state directory and the allocations that it runs, a new machine and the old one whose
// blocks are not reclaimed yet. So no variable takes the routes of another block away.
func TestReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNomad{}
		n.set(nil, node("n1", "10.0.0.2"), node("n2", "10.0.0.2"), node("n3", "10.0.0.4"))
		a := newAcceptor(n)
		old, other := block("10.91.0.0/26", "n1", "10.0.0.2", 5), block("10.91.2.0/26", "n3", "10.0.0.4", 3)
		requireText(t, "alone", decided(t, a, nil, old, other), "yes; yes")
		requireText(t, "a new machine", decided(t, a, nil, old, other, block("10.91.1.0/26", "n2", "10.0.0.2", 9)), "yes; yes; yes")
		lost := block("10.91.1.0/26", "n1", "10.0.0.2", 99) // or by another writer
		lost.Host.Instance = "another"
		requireText(t, "another instance", decided(t, a, nil, old, other, lost), "yes; yes; yes")
		bad := block("10.91.3.0/26", "n3", "10.0.0.2", 99)
		if got := decided(t, a, nil, old, bad); !strings.HasPrefix(got, "yes; no: 10.0.0.2 is no address that Nomad has of node n3") {
			t.Errorf("a host that is not there: %s", got)
		}
	})
}

// TestNomadFails: an error of Nomad is no reason to refuse what was accepted with this address,
// and none to accept another.
func TestNomadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNomad{}
		n.set(nil, node("n1", "10.0.0.2"))
		a := newAcceptor(n)
		requireText(t, "known", decided(t, a, nil, block("10.91.0.0/26", "n1", "10.0.0.2", 1)), "yes")
		n.set(errors.New("503"))
		time.Sleep(time.Hour)
		requireText(t, "changed", decided(t, a, nil, block("10.91.0.0/26", "n1", "10.0.0.2", 2)), "yes")
		requireText(t, "another node", decided(t, a, nil, block("10.91.0.0/26", "n1", "10.0.0.2", 2), block("10.91.0.64/26", "n2", "10.0.0.3", 3)), "yes; pending")
		if got := decided(t, a, nil, block("10.91.0.0/26", "n1", "10.0.0.9", 4)); !strings.HasPrefix(got, "no: ") {
			t.Errorf("another address: %s", got)
		}
	})
}

// TestNomadFailsAfterChange: also not a block of a node that had another address when Nomad answered last, and
// whose variable is written again.
func TestNomadFailsAfterChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNomad{}
		n.set(nil, node("n1", "10.0.0.2"))
		a := newAcceptor(n)
		first, second := block("10.91.0.0/26", "n1", "10.0.0.2", 1), block("10.91.0.64/26", "n1", "10.0.0.2", 2)
		requireText(t, "known", decided(t, a, nil, first, second), "yes; yes")
		n.set(nil, node("n1", "10.0.0.3"))
		second.Endpoint.Address, second.Index = node("", "10.0.0.3").Addresses[0], 3
		time.Sleep(nodeAgain)
		requireText(t, "another address", decided(t, a, nil, first, second), "yes; yes")
		n.set(errors.New("503"))
		time.Sleep(nodeAgain)
		first.Index = 4
		requireText(t, "written again", decided(t, a, nil, first, second), "yes; yes")
	})
}

// TestPendingAfterRestart: routes of an earlier agent stay until it is known whether they are
// right.
func TestPendingAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.keeps(true, config(t, "routed"))
		end := h.run(t)
		defer end()
		settle()
		h.nomad.set(errors.New("503"))
		h.peers <- answer{blocks: peers.Blocks{Remote: []peers.Remote{block("10.91.0.0/26", "n1", "10.0.0.2", 5)}}}
		time.Sleep(time.Minute)
		if calls := h.table.took(); strings.Contains(calls, "apply") {
			t.Errorf("calls %s", calls)
		}
		requireText(t, "problems", h.kinds(), "nodes")
		h.nomad.set(nil, node("n1", "10.0.0.2"))
		time.Sleep(applyPause + time.Second)
		requireText(t, "routes", h.table.routes("web"), "10.91.0.0/26 via 10.0.0.2")
	})
}

// TestQuestions: many nodes are asked for at once, few one by one, and none without need.
func TestQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNomad{}
		var all []peers.Remote
		var nodes []Node
		for i := range 100 {
			id, address := fmt.Sprintf("n%d", i), fmt.Sprintf("10.0.0.%d", i+1)
			nodes = append(nodes, node(id, address))
			all = append(all, block(fmt.Sprintf("10.91.%d.0/26", i), id, address, 1), block(fmt.Sprintf("10.91.%d.64/26", i), id, address, 1))
		}
		n.set(nil, nodes[:99]...)
		a := newAcceptor(n)
		decided(t, a, nil, all[:198]...)
		requireText(t, "99 nodes", n.questions(), "all")
		decided(t, a, nil, all[:198]...)
		requireText(t, "again", n.questions(), "")
		if got := decided(t, a, nil, all...); !strings.Contains(got, `nomad knows no node "n99"`) {
			t.Error(got)
		}
		requireText(t, "a new node", n.questions(), "n99")
		decided(t, a, nil, all...)
		requireText(t, "the new node at once again", n.questions(), "")
		n.set(nil, nodes...)
		time.Sleep(nodeAgain)
		if got := decided(t, a, nil, all...); strings.Contains(got, "no") {
			t.Error(got)
		}
		requireText(t, "the new node later", n.questions(), "n99")
		time.Sleep(time.Hour)
		decided(t, a, nil, all...)
		requireText(t, "an hour later", n.questions(), "")
	})
}

// TestShortList: the list takes no address away that Nomad has of a node, and of nodes that the list lacks
// a bounded number is asked for at a time.
func TestShortList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNomad{short: true}
		both := Node{ID: "n0", Name: "name-n0", Addresses: append(node("", "10.0.0.2").Addresses, node("", "10.9.0.2").Addresses...)}
		n.set(nil, both)
		a, all := newAcceptor(n), []peers.Remote{block("10.91.0.0/26", "n0", "10.9.0.2", 1)}
		decided(t, a, nil, all...)
		requireText(t, "one node", n.questions(), "n0")
		for i := range 100 {
			all = append(all, block(fmt.Sprintf("10.92.%d.0/26", i), fmt.Sprintf("gone%d", i), "10.0.0.9", 1))
		}
		all[0].Index = 2
		decided(t, a, nil, all...)
		asked := strings.Fields(n.questions())
		if len(asked) != 1+4*mostSingle || asked[0] != "all" || slices.Contains(asked, "n0") {
			t.Errorf("%d questions: %s", len(asked), asked)
		}
		decided(t, a, nil, all...)
		if asked = strings.Fields(n.questions()); len(asked) != 100-4*mostSingle {
			t.Errorf("then %d questions: %s", len(asked), asked)
		}
	})
}
