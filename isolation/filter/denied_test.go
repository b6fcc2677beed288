// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// deniedHost is a host with attachments, each of which has something denied.
type deniedHost struct {
	*testHost

	state   filter.State
	parties map[string]*party
}

func newDeniedHost(t *testing.T) *deniedHost {
	t.Helper()
	d := &deniedHost{parties: map[string]*party{}}
	var all []*party
	for _, p := range parties() {
		if p.isMember() && slices.Contains([]string{"s-web0", "s-db1", "n-web0", "n-batch1", "o-web0", "pn-web0", "po-plain0"}, p.name) {
			if p.name == "po-plain0" {
				p.narrowing = &narrowing{ingress: "none"}
			}
			all = append(all, p)
			d.state.Members, d.parties[p.name] = append(d.state.Members, p.member(len(all)-1)), p
		}
	}
	d.state.Rules = matrixRules
	d.testHost, _ = build(t, append(parties()[:2], all...), func() filter.State { return d.state })
	return d
}

func (d *deniedHost) member(name string) filter.Member {
	return d.state.Members[slices.IndexFunc(d.state.Members, func(m filter.Member) bool { return m.ID == name })]
}

// counts returns what was dropped.
func (d *deniedHost) counts(t *testing.T) (found map[string]isolation.Denied) {
	t.Helper()
	d.in(t, d.Namespace, func() (err error) {
		found, err = kernel.Denied(t.Context())
		return err
	})
	return found
}

// forge sends frames from an attachment with another source: three by which it is not known.
func (d *deniedHost) forge(t *testing.T, name string) {
	t.Helper()
	m, frames := d.member(name), map[string][]byte{}
	gateway := m.Bridge
	if gateway == "" {
		gateway = m.End
	}
	mac := bridgeMAC(t, d.testHost, gateway)
	for i := range 3 {
		packet := packet4(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), netip.MustParseAddr("10.9.0.2"), unix.IPPROTO_UDP, 0, datagram(5000, 5001, "forged"))
		frames[fmt.Sprint(i)] = frame(mac, m.MAC, unix.ETH_P_IP, packet...)
	}
	inject(t, d.inside[name], frames)
}

// deniedFlows are denied for each reason, with the ends that they are counted for.
var deniedFlows = []struct {
	from, to string
	reason   isolation.Reason
}{
	{"s-web0", "s-db1", isolation.ByStrict}, {"n-web0", "s-db1", isolation.ByStrict}, {"o-web0", "n-web0", isolation.ByNetwork},
	{"n-web0", "o-web0", isolation.ByNetwork}, {"n-batch1", "o-web0", isolation.ByEgress}, {"o-web0", "po-plain0", isolation.ByNarrowing},
}

// TestRootDeniedCounts: packets that are denied are counted for both ends, and those with another sender for the end they come from. What is allowed
// is not, and a change of rules or levels, or an attachment that is added again, begins no count anew.
func TestRootDeniedCounts(t *testing.T) {
	roottest.Require(t)
	d := newDeniedHost(t)
	for name, found := range d.counts(t) {
		if found != (isolation.Denied{}) {
			t.Errorf("%s has %v before anything was sent", name, found)
		}
	}
	for _, f := range deniedFlows {
		for _, a := range d.parties[f.to].addresses {
			before := d.counts(t)
			sandbox.Eventually(t, f.from+" to "+f.to+" is counted", func() bool {
				d.parties[f.from].send("udp", 0, netip.AddrPortFrom(a, 9), "12345678")
				now := d.counts(t)
				return now[f.from].Packets > before[f.from].Packets && now[f.to].Packets > before[f.to].Packets && now[f.to].Bytes >= before[f.to].Bytes+36
			})
		}
	}
	forgers := []string{"s-web0", "pn-web0"} // of a bridge, and of ptp
	for _, name := range forgers {
		d.forge(t, name)
		sandbox.Eventually(t, "what "+name+" forges is counted", func() bool { return d.counts(t)[name].Forged == 3 })
	}
	before := d.counts(t)
	for name, found := range before {
		if slices.Contains(forgers, name) != (found.Forged > 0) {
			t.Errorf("%s has %v", name, found)
		}
	}
	if quiet := before["pn-web0"]; quiet.Packets != 0 {
		t.Errorf("an attachment of which nothing was denied has %v", quiet)
	}
	changed := filter.State{Members: slices.Clone(d.state.Members), Rules: isolation.Rules{Allow: slices.Clone(matrixRules.Allow[:1])}}
	changed.Members[0].Level = isolation.Network
	d.in(t, d.Namespace, func() error { return kernel.Apply(t.Context(), source(changed)) })
	d.in(t, d.Namespace, func() error { return admit(t, changed.Rules, changed.Members[0], source(changed)) })
	for name, now := range d.counts(t) {
		if was := before[name]; now.Packets < was.Packets || now.Forged < was.Forged {
			t.Errorf("%s has %v, and had %v", name, now, was)
		}
	}
	m := d.member("s-web0")
	d.in(t, d.Namespace, func() error { return kernel.Remove(t.Context(), lazily(changed.Rules), m) })
	if _, ok := d.counts(t)[m.ID]; ok {
		t.Error("an attachment that is gone has counts")
	}
}

// heard are the flows that were told of.
type heard struct {
	mu  sync.Mutex
	all []isolation.DeniedFlow
}

func (h *heard) add(f isolation.DeniedFlow) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, f)
}

// has tells whether a flow was told of, but for its time.
func (h *heard) has(wanted isolation.DeniedFlow) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.all, func(f isolation.DeniedFlow) bool {
		wanted.Time = f.Time
		return f == wanted && !f.Time.IsZero()
	})
}

// TestRootListen: a listener is told of what is denied, and why. A second one is refused, and the first ends with its context.
func TestRootListen(t *testing.T) {
	roottest.Require(t)
	d := newDeniedHost(t)
	ctx, stop := context.WithCancel(t.Context())
	var h heard
	ended := make(chan error, 1)
	listening := make(chan struct{})
	go func() {
		ended <- d.Do(func() error { return filter.Listen(ctx, func() { close(listening) }, h.add) })
	}()
	select {
	case <-listening:
	case err := <-ended:
		t.Fatal(err)
	}
	for _, f := range deniedFlows {
		for _, a := range d.parties[f.to].addresses {
			from, to := d.member(f.from), d.member(f.to)
			want := isolation.DeniedFlow{From: from.Addresses[0], To: a, Protocol: "udp", Port: 9, FromLink: from.Link, ToLink: to.Link, Reason: f.reason}
			if a.Is6() {
				want.From = from.Addresses[1]
			}
			sandbox.Eventually(t, fmt.Sprint("it is told of ", want), func() bool {
				d.parties[f.from].send("udp", 0, netip.AddrPortFrom(a, 9), "12345678")
				return h.has(want)
			}, func() string { return fmt.Sprint(h.all) })
		}
	}
	for _, name := range []string{"s-web0", "pn-web0"} {
		m := d.member(name)
		want := isolation.DeniedFlow{From: netip.MustParseAddr("192.0.2.1"), To: netip.MustParseAddr("10.9.0.2"), Protocol: "udp", Port: 5001, FromLink: m.End, Reason: isolation.Forged}
		sandbox.Eventually(t, fmt.Sprint("it is told of ", want), func() bool { d.forge(t, name); return h.has(want) }, func() string { return fmt.Sprint(h.all) })
	}
	err := d.Do(func() error { return filter.Listen(t.Context(), func() { t.Error("a second one listens") }, h.add) })
	if err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second listener: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the listener ends with %v", err)
	}
}
