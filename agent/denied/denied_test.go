// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package denied

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/isolation"
)

var (
	web, db = netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("10.1.0.5")
	begin   = time.Unix(1000, 0)
)

// world has two attachments, and counts how often they are read.
type world struct {
	ends  []hook.HostEnd
	reads int
	err   error
}

func (w *world) log() *Log {
	w.ends = append(w.ends,
		hook.HostEnd{Allocation: "web-1", Interface: "eth0", Network: "open", Addresses: []netip.Addr{web}, Links: []string{"br0", "veth1"}},
		hook.HostEnd{Allocation: "db-1", Interface: "eth0", Network: "db", Addresses: []netip.Addr{db}, Links: []string{"br1", "veth2"}})
	return New(Config{Logger: hclog.NewNullLogger(), Ends: func(context.Context) ([]hook.HostEnd, error) { w.reads++; return w.ends, w.err }})
}

// packet is one from web to db, at a second.
func packet(second int) isolation.DeniedFlow {
	return isolation.DeniedFlow{
		Time: begin.Add(time.Duration(second) * time.Second), From: web, To: db, Protocol: "tcp", Port: 5432,
		FromLink: "br0", ToLink: "br1", Reason: isolation.ByStrict,
	}
}

// texts are the flows in words.
func texts(l *Log) (all []string) {
	flows, _ := l.Flows()
	for _, f := range flows {
		all = append(all, fmt.Sprintf("%s to %s %s %s %d from %d to %d", f.From, f.To, f.Service(), f.Reason, f.Count, f.First.Unix()-begin.Unix(), f.Last.Unix()-begin.Unix()))
	}
	return all
}

// TestFlows: packets are those of attachments by link and address, a flow is one entry, and the last one that was told of comes last.
func TestFlows(t *testing.T) {
	l := (&world{}).log()
	another, forged, outside, toHost, frame := packet(2), packet(4), packet(5), packet(6), packet(7)
	another.Port = 80
	forged.From, forged.FromLink, forged.ToLink, forged.Reason = netip.MustParseAddr("192.0.2.9"), "veth1", "", isolation.Forged
	outside.From, outside.FromLink = web, "eth9" // another machine has the address of an attachment
	toHost.To, toHost.ToLink, toHost.Reason, toHost.Protocol, toHost.Port = netip.MustParseAddr("10.0.0.1"), "", isolation.ByEgress, "icmp", 0
	frame.From, frame.To, frame.FromLink, frame.ToLink, frame.Protocol, frame.Port, frame.Reason = netip.Addr{}, netip.Addr{}, "veth2", "", "", 0, isolation.Forged
	for _, f := range []isolation.DeniedFlow{packet(1), another, packet(3), forged, outside, toHost, frame, packet(8)} {
		l.add(t.Context(), f)
	}
	want := []string{
		"web-1@eth0 (10.0.0.5) to db-1@eth0 (10.1.0.5) 80/tcp strict 1 from 2 to 2",
		"web-1@eth0 (192.0.2.9) to 10.1.0.5 5432/tcp forged 1 from 4 to 4",
		"10.0.0.5 to db-1@eth0 (10.1.0.5) 5432/tcp strict 1 from 5 to 5",
		"web-1@eth0 (10.0.0.5) to 10.0.0.1 icmp egress 1 from 6 to 6",
		"db-1@eth0 (a frame) to -  forged 1 from 7 to 7",
		"web-1@eth0 (10.0.0.5) to db-1@eth0 (10.1.0.5) 5432/tcp strict 3 from 1 to 8",
	}
	if got := texts(l); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestKept: the oldest flows go.
func TestKept(t *testing.T) {
	l := (&world{}).log()
	for i := range kept + 10 {
		f := packet(0)
		f.Port = uint16(i + 1)
		l.add(t.Context(), f)
	}
	flows, _ := l.Flows()
	if len(flows) != kept || flows[0].Port != 11 || flows[kept-1].Port != kept+10 {
		t.Errorf("%d flows, from port %d to %d", len(flows), flows[0].Port, flows[len(flows)-1].Port)
	}
}

// TestHeir: an address that another attachment has by now is not taken for the former one's, and records are not read for each packet.
func TestHeir(t *testing.T) {
	w := &world{}
	l := w.log()
	for range 100 {
		l.add(t.Context(), packet(0))
	}
	if w.reads != 1 {
		t.Errorf("attachments were read %d times", w.reads)
	}
	w.ends[0].Allocation = "web-2"
	l.add(t.Context(), packet(6))
	if got := texts(l); w.reads != 2 || len(got) != 2 || !strings.HasPrefix(got[1], "web-2@eth0 ") || !strings.HasPrefix(got[0], "web-1@eth0 ") {
		t.Errorf("read %d times: %q", w.reads, got)
	}
	w.ends = append(w.ends, hook.HostEnd{Allocation: "new", Interface: "eth0", Addresses: []netip.Addr{netip.MustParseAddr("10.9.0.5")}, Links: []string{"veth9", "veth9"}})
	f := packet(8)
	f.From, f.FromLink = netip.MustParseAddr("10.9.0.5"), "veth9"
	l.add(t.Context(), f)
	if got := texts(l); w.reads != 3 || !strings.HasPrefix(got[2], "new@eth0 ") {
		t.Errorf("a new attachment: read %d times: %q", w.reads, got)
	}
	w.err, w.ends = errors.New("a record cannot be read"), nil
	l.add(t.Context(), packet(20))
	if got := texts(l); !strings.HasPrefix(got[3], "10.0.0.5 to 10.1.0.5 ") {
		t.Errorf("without records: %q", got)
	}
}

// TestRun: what is listened to is kept until the end, and a host that tells of nothing says why.
func TestRun(t *testing.T) {
	w := &world{}
	l := w.log()
	ctx, stop := context.WithCancel(t.Context())
	heard := make(chan struct{})
	l.config.Listen = func(ctx context.Context, _ func(), do func(isolation.DeniedFlow)) error {
		for i := range 2 * queued { // more than wait: some are left out, and nothing blocks
			do(packet(i))
		}
		close(heard)
		<-ctx.Done()
		return ctx.Err()
	}
	done := make(chan struct{})
	go func() { l.Run(ctx); close(done) }()
	<-heard
	stop()
	<-done
	if _, err := l.Flows(); err != nil {
		t.Errorf("an end that was wanted: %v", err)
	}
}

// TestListensAgain: while another process listens the host says so, and it is tried again until that one has ended.
func TestListensAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := (&world{}).log()
		var lines strings.Builder
		l.config.Logger = hclog.New(&hclog.LoggerOptions{Output: &lines})
		var attempts atomic.Int32
		lost := make(chan struct{})
		l.config.Listen = func(ctx context.Context, listening func(), do func(isolation.DeniedFlow)) error {
			attempt := attempts.Add(1)
			if attempt%4 != 0 {
				return errors.New("another process listens")
			}
			listening()
			do(packet(int(attempt)))
			select {
			case <-ctx.Done():
			case <-lost:
			}
			return errors.New("the socket is closed")
		}
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { l.Run(ctx) })
		for i, want := range []string{"1, 0 flows, another process listens", "2, 0 flows, another process listens", "3, 0 flows, another process listens", "4, 1 flows, <nil>", "4, 1 flows, <nil>"} {
			synctest.Wait()
			flows, err := l.Flows()
			if got := fmt.Sprintf("%d, %d flows, %v", attempts.Load(), len(flows), err); got != want {
				t.Errorf("pause %d: attempt %s, want %s", i, got, want)
			}
			time.Sleep(pause)
		}
		close(lost)
		synctest.Wait()
		if flows, err := l.Flows(); len(flows) != 1 || fmt.Sprint(err) != "the socket is closed" {
			t.Errorf("the flows of before are %v, %v", flows, err)
		}
		stop()
		group.Wait()
		if text := lines.String(); strings.Count(text, "not told of") != 2 || strings.Count(text, "are told of") != 1 {
			t.Errorf("logged is\n%s", text)
		}
	})
}
