// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// heirPort is that of both ends of a flow that an attachment leaves.
const heirPort = 7001

// listenAt opens a socket at an address of a namespace, which answers what it gets, and tells of it.
func listenAt(t *testing.T, p *probes, n *netns.Namespace, a netip.Addr, answers bool) (socket net.PacketConn) {
	t.Helper()
	err := n.Do(func() (err error) {
		socket, err = net.ListenPacket("udp", netip.AddrPortFrom(a, heirPort).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		buffer := make([]byte, 100)
		for {
			n, from, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			p.arrive(string(buffer[:n]))
			if answers {
				_, _ = socket.WriteTo(append([]byte("answer to "), buffer[:n]...), from)
			}
		}
	}()
	return socket
}

// TestRootHeirOfFlows: an attachment that gets the address of one that is gone does not get its flows, in either direction.
func TestRootHeirOfFlows(t *testing.T) {
	roottest.Require(t)
	all := attackers()
	web, db := all[0], all[1]
	state := filter.State{Rules: isolation.Rules{Allow: []isolation.Allow{{Name: "web reaches db", From: isolation.Selector{Job: "web"}, To: isolation.Selector{Job: "db"}}}}}
	for i, p := range all {
		state.Members = append(state.Members, p.member(i))
	}
	h, p := build(t, append(parties()[:2], all...), func() filter.State { return state })
	for v, a := range web.addresses {
		to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(db.addresses[v], heirPort))
		listenAt(t, p, h.inside[db.name], db.addresses[v], true)
		from := listenAt(t, p, h.inside[web.name], a, false)
		sandbox.Eventually(t, "the flow is established", func() bool {
			_, _ = from.WriteTo(fmt.Appendf(nil, "first %d", v), to)
			return p.has(fmt.Sprintf("answer to first %d", v))
		})
	}
	gone := state.Members[0]
	heir := gone
	heir.ID, heir.Job, heir.End, heir.MAC = "heir", "stranger", "veth0000ffff", net.HardwareAddr{2, 0, 0, 0, 7, 7}
	h.in(t, h.Namespace, func() error {
		run(t, "ip", "link", "del", gone.End)
		return kernel.Remove(t.Context(), lazily(state.Rules), gone)
	})
	state.Members[0] = heir
	h.attach(t, heir.ID, heir, netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("2001:db8:1::1"), func() (filter.State, error) { return state, nil })
	for v, a := range web.addresses {
		to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(db.addresses[v], heirPort))
		from := listenAt(t, p, h.inside[heir.ID], a, false)
		for i := range 3 { // what comes after it has arrived
			_, _ = from.WriteTo(fmt.Appendf(nil, "heir %d", v), to)
			name := fmt.Sprintf("host %d %d", v, i)
			sandbox.Eventually(t, "the host reaches it", func() bool {
				_ = h.Do(func() error {
					c, err := net.Dial("udp", to.String())
					if err != nil {
						return err
					}
					defer c.Close()
					_, err = c.Write([]byte(name))
					return err
				})
				return p.has(name)
			})
		}
		if p.has(fmt.Sprintf("heir %d", v)) {
			t.Errorf("%s: a packet of the heir has arrived in a flow that is not its own", a)
		}
	}
}

// TestRootHeirBeforeRemoval: an attachment that has got the address of one that is removed later keeps all that it has.
func TestRootHeirBeforeRemoval(t *testing.T) {
	roottest.Require(t)
	for _, job := range []string{"web", "other", "batch"} {
		netnstest.Run(t, func() error {
			addBridges(t, bridgesOf...)
			state := mixed()
			gone := state.Members[0]
			heir := gone
			heir.ID, heir.Job, heir.End, heir.MAC = "heir", job, "veth0000ffff", state.Members[5].MAC
			both := filter.State{Rules: state.Rules, Members: append(state.Members[:len(state.Members):len(state.Members)], heir)}
			left := filter.State{Rules: state.Rules, Members: both.Members[1:]}
			err := errors.Join(
				kernel.Apply(t.Context(), source(state)), admit(t, state.Rules, heir, source(both)),
				kernel.Remove(t.Context(), lazily(state.Rules), gone),
			)
			requireComplete(t, left)
			return err
		})
	}
}
