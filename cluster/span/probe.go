// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/route"
	"github.com/allocnet/allocnet/internal/echo"
	"github.com/allocnet/allocnet/internal/wake"
)

// Probe is an echo request to a host, as this host sends packets for its blocks.
type Probe struct {
	// Target is where it is sent; a link-local address has the device as its zone. Not valid:
	// no block of the host has a route through which it would answer.
	Target netip.Addr
	// Device is the VXLAN device through which it is sent. Empty: none.
	Device string
	// Time is when it was sent, and Took until the reply came. Zero: none was sent yet.
	Time time.Time
	Took time.Duration
	// Err is why there is no reply. Nil: there is one.
	Err error
}

const (
	// probePause is the time in which all hosts are probed once.
	probePause = 15 * time.Second
	// probeLimit is the time for a reply, and probeAttempts are made before a host is silent: one
	// packet may be lost.
	probeLimit, probeAttempts = time.Second, 3
	// mostProbes wait for replies at a time.
	mostProbes = 16
)

// probeOf returns how a host with these routes is probed. Through VXLAN it is asked for its
// node's address, which it answers directly. It answers from the link-local address of
// its device only if it has a route to a block of this host.
func probeOf(routes []route.Route, address netip.Addr, hasBlocks bool) Probe {
	for _, r := range routes {
		switch {
		case r.State != route.Installed:
		case r.Mode == ipam.ModeRouted:
			return Probe{Target: address}
		case r.Via.Is4():
			return Probe{Target: r.Via, Device: r.Device}
		case hasBlocks:
			return Probe{Target: r.Via.WithZone(r.Device), Device: r.Device}
		}
	}
	return Probe{}
}

type probeKey struct {
	target netip.Addr
	device string
}

func (p Probe) key() probeKey { return probeKey{p.Target, p.Device} }

// probe probes all hosts in turn until ctx ends.
func (r *runner) probe(ctx context.Context) {
	for ctx.Err() == nil {
		all := r.probes()
		gap := probePause / time.Duration(max(1, len(all)))
		if len(all) == 0 {
			gap = time.Second
			wake.After(ctx, gap)
		}
		var group sync.WaitGroup
		slots := make(chan struct{}, mostProbes)
		for _, p := range all {
			slots <- struct{}{}
			group.Go(func() {
				defer func() { <-slots }()
				r.probed(ctx, r.ping(ctx, p))
			})
			wake.After(ctx, gap)
		}
		group.Wait()
	}
}

// probes returns which hosts can be probed, each once, and forgets the others.
func (r *runner) probes() []Probe {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Probe
	before := r.answers
	r.answers = map[probeKey]Probe{}
	for i := range r.current.Nodes {
		p := r.current.Nodes[i].Probe
		if _, ok := r.answers[p.key()]; !ok && p.Target.IsValid() {
			r.answers[p.key()] = p
			all = append(all, p)
			if answer, ok := before[p.key()]; ok {
				r.answers[p.key()] = answer
			}
		}
	}
	return all
}

// ping sends requests until one is answered.
func (r *runner) ping(ctx context.Context, p Probe) Probe {
	r.mu.Lock()
	request := echo.Request{Target: p.Target, Device: p.Device, Source: r.current.Endpoint.Address}
	r.mu.Unlock()
	if p.Device == "" || !p.Target.Is4() {
		request.Source = netip.Addr{} // the kernel's choice is right
	}
	for range probeAttempts {
		limited, stop := context.WithTimeout(ctx, probeLimit)
		p.Time = time.Now()
		p.Took, p.Err = r.send(limited, request)
		stop()
		if p.Err == nil || ctx.Err() != nil {
			break
		}
	}
	return p
}

func (r *runner) probed(ctx context.Context, p Probe) {
	if ctx.Err() != nil {
		return
	}
	if r.observer != nil {
		r.observer.Probed(r.config.Pool, p.Took, p.Err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[p.key()] = p
}
