// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package denied keeps the flows that isolation has denied last on this host, with the attachments that they are of.
//
// The kernel tells of some packets, and of a host only one process hears it: the agent. Packets of one flow are one entry with
// a count. What is kept is in memory, and ends with the agent; the counts of attachments are the kernel's.
package denied

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/wake"
	"github.com/allocnet/allocnet/isolation"
)

const (
	// kept is how many flows are kept.
	kept = 1000
	// queued is how many packets wait while records are read. More are left out: the kernel leaves out some, too.
	queued = 256
	// stale is after what time the attachments are read again, and fresh if a packet is of none that is known.
	stale, fresh = 5 * time.Second, time.Second
	// pause is how long it takes until it is tried to listen again.
	pause = 10 * time.Second
)

// Config is where a Log has its facts from.
type Config struct {
	// Listen calls listening once it hears of packets that are dropped, and tell for each, until the context ends. Required.
	Listen func(ctx context.Context, listening func(), tell func(isolation.DeniedFlow)) error
	// Ends returns the attachments of this host. Required.
	Ends func(context.Context) ([]hook.HostEnd, error)
	// Logger gets a line when packets are not heard of, and when they are again. Required.
	Logger hclog.Logger
}

// Log has the flows that were denied last.
type Log struct {
	config Config
	// ends are attachments as they were when read; the goroutine of Run has them.
	ends []hook.HostEnd
	read time.Time

	mu sync.Mutex
	// flows are in the order of their last packets.
	flows []allocation.DeniedFlow
	deaf  error
}

// New returns a Log that has no flows yet.
func New(c Config) *Log { return &Log{config: c} }

// Run listens until ctx ends, also after another program that does has ended.
func (l *Log) Run(ctx context.Context) {
	packets := make(chan isolation.DeniedFlow, queued)
	var group sync.WaitGroup
	defer group.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group.Go(func() { l.keep(ctx, packets) })
	for {
		err := l.config.Listen(ctx, func() { l.hear(nil) }, func(f isolation.DeniedFlow) {
			select {
			case packets <- f:
			default:
			}
		})
		if err == nil || ctx.Err() != nil {
			return
		}
		l.hear(err)
		if !wake.After(ctx, pause) {
			return
		}
	}
}

// hear keeps why packets are not heard of; nil: they are. What changes is logged.
func (l *Log) hear(deaf error) {
	l.mu.Lock()
	before := l.deaf
	l.deaf = deaf
	l.mu.Unlock()
	switch {
	case deaf == nil && before != nil:
		l.config.Logger.Info("flows that isolation denies are told of")
	case deaf != nil && (before == nil || before.Error() != deaf.Error()):
		l.config.Logger.Warn("flows that isolation denies are not told of", "error", deaf)
	}
}

// keep adds packets until ctx ends.
func (l *Log) keep(ctx context.Context, packets <-chan isolation.DeniedFlow) {
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-packets:
			l.add(ctx, f)
		}
	}
}

// add adds a packet.
func (l *Log) add(ctx context.Context, f isolation.DeniedFlow) {
	age := f.Time.Sub(l.read)
	if age < 0 || age > stale || age > fresh && !l.knows(f) {
		l.readEnds(ctx, f.Time)
	}
	flow := allocation.DeniedFlow{
		First: f.Time, Last: f.Time, Count: 1, From: l.end(f.From, f.FromLink, f.Reason == isolation.Forged), To: l.end(f.To, f.ToLink, false),
		Protocol: f.Protocol, Port: f.Port, Reason: string(f.Reason),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.IndexFunc(l.flows, func(other allocation.DeniedFlow) bool { return isSame(other, flow) })
	switch {
	case at >= 0:
		flow.First, flow.Count = l.flows[at].First, l.flows[at].Count+1
		l.flows = slices.Delete(l.flows, at, at+1)
	case len(l.flows) == kept:
		l.flows = slices.Delete(l.flows, 0, 1)
	}
	l.flows = append(l.flows, flow)
}

// isSame tells whether two packets are of one flow.
func isSame(a, b allocation.DeniedFlow) bool {
	return a.From == b.From && a.To == b.To && a.Protocol == b.Protocol && a.Port == b.Port && a.Reason == b.Reason
}

// knows tells whether the attachments are known that a packet can be of.
func (l *Log) knows(f isolation.DeniedFlow) bool {
	return (f.FromLink == "" || l.has(f.FromLink)) && (f.ToLink == "" || l.has(f.ToLink))
}

func (l *Log) has(link string) bool {
	return slices.ContainsFunc(l.ends, func(e hook.HostEnd) bool { return slices.Contains(e.Links, link) })
}

func (l *Log) readEnds(ctx context.Context, now time.Time) {
	ends, err := l.config.Ends(ctx)
	if err != nil {
		l.config.Logger.Debug("denied flows of some attachments are without their names", "error", err)
	}
	l.ends, l.read = ends, now
}

// end names an end. A forged packet is of the attachment behind the link, whatever address it has.
func (l *Log) end(a netip.Addr, link string, isForged bool) allocation.FlowEnd {
	found := allocation.FlowEnd{Address: a, Link: link}
	at := slices.IndexFunc(l.ends, func(e hook.HostEnd) bool {
		return link != "" && slices.Contains(e.Links, link) && (isForged || slices.Contains(e.Addresses, a))
	})
	if at >= 0 {
		e := l.ends[at]
		found.Allocation, found.Interface, found.Network = e.Allocation, e.Interface, e.Network
	}
	return found
}

// Flows returns the flows, in the order of their last packets, and why the host tells of no more; nil: it does.
func (l *Log) Flows() ([]allocation.DeniedFlow, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Clone(l.flows)
	slices.SortStableFunc(all, func(a, b allocation.DeniedFlow) int { return cmp.Compare(a.Last.UnixNano(), b.Last.UnixNano()) })
	return all, l.deaf
}
