// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/internal/dhcp/client"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// interval is the time between two looks at the records. A lease is for ten seconds at least.
const interval = time.Second

// parallel is how many leases are extended at once: servers may be silent.
const parallel = 16

// servers are asked by an interface.
type servers interface {
	Acquire(ctx context.Context, wanted netip.Addr, requested func(dhcp.Lease) error) (dhcp.Lease, error)
	Renew(ctx context.Context, l dhcp.Lease) (dhcp.Lease, error)
	Rebind(ctx context.Context, l dhcp.Lease) (dhcp.Lease, error)
	Close()
}

// keeper extends leases.
type keeper struct {
	env *operation.Env
	// open returns the servers of an interface of a namespace.
	open func(n kernel.Namespace, iface string, of client.Identity) (servers, error)
	// enter has an interface be as its lease has it.
	enter func(n kernel.Namespace, iface string, l dhcp.Lease) error
	// now is the time since boot.
	now func() time.Duration

	limit chan struct{}
	group sync.WaitGroup
	mu    sync.Mutex // guards tried and busy
	// tried is when each lease was last tried to be extended, and busy are those of which that goes on.
	tried map[attachment]time.Duration
	busy  map[attachment]bool
}

type attachment struct {
	allocation, iface string
	created           time.Time
}

func newKeeper(env *operation.Env) *keeper {
	return &keeper{
		env: env, open: openInside, enter: enter, now: dhcp.Now,
		limit: make(chan struct{}, parallel), tried: map[attachment]time.Duration{}, busy: map[attachment]bool{},
	}
}

// openInside opens an interface of a namespace.
func openInside(n kernel.Namespace, iface string, of client.Identity) (s servers, err error) {
	err = within.Path(n.Handle(), func(ns.NetNS) error {
		c, err := client.Open(iface, of)
		s = c
		return err
	})
	return s, err
}

// Keep extends the leases on record until ctx ends, and records what router advertisements change. Of several processes one does.
func Keep(ctx context.Context, env *operation.Env) {
	k := newKeeper(env)
	unlock, err := env.Store.Leases().Keep(ctx)
	if err != nil {
		if ctx.Err() == nil {
			env.Config.Logger.Error("leases of DHCP are not extended", "error", err)
		}
		return
	}
	defer unlock()
	defer k.group.Wait()
	k.group.Go(func() { follow(ctx, env) })
	for last := ""; ctx.Err() == nil; _ = config.Sleep(ctx, interval) {
		text := ""
		if err := k.round(ctx); err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		if text != last && text != "" {
			env.Config.Logger.Warn("leases of DHCP whose records cannot be read are not extended", "error", text)
		}
		last = text
	}
}

// round begins to extend what is due. The error is that of records that cannot be read: nothing is known of their leases.
func (k *keeper) round(ctx context.Context) (unread error) {
	found := map[attachment]bool{}
	for record, err := range k.env.Store.Leases().List(ctx) {
		if err != nil {
			unread = errors.Join(unread, err)
			continue
		}
		for _, a := range record.Attachments {
			key := attachment{record.Allocation.ID, a.Interface, a.Created}
			found[key] = true
			if isKept(a) && k.begin(key, *a.DHCP) {
				k.group.Go(func() { k.work(ctx, key, record.Allocation, a) })
			}
		}
	}
	if unread == nil {
		k.forget(found)
	}
	return unread
}

// isKept tells whether an attachment has a lease that nothing else works on.
func isKept(a state.Attachment) bool {
	return a.DHCP != nil && !a.DHCP.Requested && a.Phase == state.Attached && a.FormerResult == nil && a.Result != nil
}

// begin tells whether a lease is due, and notes that.
func (k *keeper) begin(key attachment, l dhcp.Lease) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, due := k.now(), l.Due(k.tried[key])
	if l.Former != nil {
		due = k.tried[key] // at once, and then
		if due > 0 {
			due += interval
		}
	}
	if k.busy[key] || now < due {
		return false
	}
	k.busy[key], k.tried[key] = true, now
	return true
}

// forget drops what is known of attachments that are gone.
func (k *keeper) forget(found map[attachment]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.tried {
		if !found[key] && !k.busy[key] {
			delete(k.tried, key)
		}
	}
}

// work does what is due for one lease. A panic ends the work on it, and not the process, which serves other allocations.
func (k *keeper) work(ctx context.Context, key attachment, of state.Allocation, a state.Attachment) {
	k.limit <- struct{}{}
	defer func() {
		if reason := recover(); reason != nil {
			k.env.Config.Logger.Error("extend a lease of DHCP", "allocation", key.allocation, "interface", key.iface, "error", within.Recovered(reason).CNIError("lease"))
		}
		<-k.limit
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.busy, key)
	}()
	n, err := k.env.Config.OpenNamespace(of)
	if errors.Is(err, netns.ErrMissing) { // garbage collections decide what that means
		return
	}
	if err == nil {
		defer n.Close() //nolint:errcheck // read only
		err = k.extend(ctx, n, of, a)
	}
	if err != nil && ctx.Err() == nil {
		k.env.Config.Logger.Warn("the lease of DHCP is not extended", "allocation", of.ID, "network", a.Network, "interface", a.Interface, "address", a.DHCP.Address, "expires", a.DHCP.Expires(), "error", err)
	}
}

// extend has a lease extended, or replaced if it ended, and what follows from that.
func (k *keeper) extend(ctx context.Context, n kernel.Namespace, of state.Allocation, a state.Attachment) error {
	if a.DHCP.Former != nil {
		return k.change(ctx, of, a, *a.DHCP)
	}
	asking, stop := context.WithTimeout(ctx, client.Timeout)
	defer stop()
	l, err := k.ask(asking, n, a)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		l.HadDefault = a.DHCP.HadDefault
		return k.change(ctx, of, a, l)
	}
	ended := errors.Is(err, client.ErrRefused) || a.DHCP.Stage(k.now()) == dhcp.Ended
	if ended && !a.DHCP.Lost {
		lost := *a.DHCP
		lost.Lost = true
		err = errors.Join(fmt.Errorf("the address %s is not used any more: %w", lost.Address, err), k.change(ctx, of, a, lost))
	}
	return err
}

// ask asks servers for what is due. A lease that is refused is replaced: another server may have come.
func (k *keeper) ask(ctx context.Context, n kernel.Namespace, a state.Attachment) (l dhcp.Lease, err error) {
	s, err := k.open(n, a.Interface, client.Identity{ClientID: a.DHCP.ClientID, HostName: a.DHCP.HostName})
	if err != nil {
		return l, err
	}
	defer s.Close()
	switch a.DHCP.Stage(k.now()) {
	case dhcp.Bound, dhcp.Renewing:
		l, err = s.Renew(ctx, *a.DHCP)
	case dhcp.Rebinding:
		l, err = s.Rebind(ctx, *a.DHCP)
	case dhcp.Ended:
		return k.acquire(ctx, s, a)
	}
	if !errors.Is(err, client.ErrRefused) {
		return l, err
	}
	l, silence := k.acquire(ctx, s, a)
	if silence != nil {
		return l, errors.Join(err, silence)
	}
	return l, nil
}

// acquire asks for another lease. One that a killed process has asked for its successor gets again: it is the same client.
func (k *keeper) acquire(ctx context.Context, s servers, a state.Attachment) (dhcp.Lease, error) {
	return s.Acquire(ctx, a.DHCP.Address.Addr(), func(dhcp.Lease) error { return nil })
}
