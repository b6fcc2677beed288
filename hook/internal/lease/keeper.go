// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/internal/dhcp/client"
	"github.com/allocnet/allocnet/internal/inprocess/ipam"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// interval is the time between two looks at the records. A lease is for ten seconds at least.
const interval = time.Second

// parallel is how many leases of a queue are extended at once: servers may be silent.
const parallel = 16

// queue has leases that wait for one another: those of a network, without those that have ended. Neither a network whose servers are silent nor
// allocations that have lost their leases, and keep asking, hold up a lease that a server extends: it would end, too.
type queue struct {
	network  string
	hasEnded bool
}

// keeper extends leases.
type keeper struct {
	env *operation.Env
	// open returns the servers of a family, asked by an interface of a namespace.
	open func(ctx context.Context, n kernel.Namespace, iface string, f dhcp.Family, of client.Identity) (client.Servers, error)
	// enter has an interface be as its lease has it.
	enter func(n kernel.Namespace, iface string, l dhcp.Lease) error
	// now is the time since boot.
	now func() time.Duration

	records state.Kept[state.Record]
	group   sync.WaitGroup
	mu      sync.Mutex // guards all below
	// limits are full while as many leases of a queue are being extended as may be.
	limits map[queue]chan struct{}
	// tried is when each lease was last tried to be extended, and busy are those of which that goes on.
	tried map[kept]time.Duration
	busy  map[kept]bool
}

// kept is a lease of an attachment.
type kept struct {
	allocation, iface string
	created           time.Time
	family            dhcp.Family
}

func newKeeper(env *operation.Env) *keeper {
	return &keeper{
		env: env, open: openInside, enter: enter, now: dhcp.Now,
		limits: map[queue]chan struct{}{}, tried: map[kept]time.Duration{}, busy: map[kept]bool{},
	}
}

// openInside opens an interface of a namespace.
func openInside(ctx context.Context, n kernel.Namespace, iface string, f dhcp.Family, of client.Identity) (client.Servers, error) {
	inside := func(do func() error) error { return within.Path(n.Handle(), func(ns.NetNS) error { return do() }) }
	return client.Open(ctx, inside, iface, f, of)
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
	found := map[kept]bool{}
	asItIs := func(record state.Record) (state.Record, bool) { return record, true }
	unread = k.records.EachLeased(ctx, k.env.Store, asItIs, func(record state.Record) {
		for _, a := range record.Attachments {
			for _, l := range a.Leased() {
				key := kept{record.Allocation.ID, a.Interface, a.Created, l.Family()}
				found[key] = true
				if isKept(a, l) && k.begin(key, l) {
					k.group.Go(func() { k.work(ctx, key, record.Allocation, a, l) })
				}
			}
		}
	})
	if unread == nil {
		k.forget(found)
	}
	return unread
}

// isKept tells whether a lease of an attachment is one that nothing else works on.
func isKept(a state.Attachment, l dhcp.Lease) bool {
	return !l.Requested && a.Phase == state.Attached && a.FormerResult == nil && a.Result != nil
}

// begin tells whether a lease is due, and notes that.
func (k *keeper) begin(key kept, l dhcp.Lease) bool {
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

func (k *keeper) limitOf(of queue) chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.limits[of] == nil {
		k.limits[of] = make(chan struct{}, parallel)
	}
	return k.limits[of]
}

// forget drops what is known of attachments that are gone.
func (k *keeper) forget(found map[kept]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.tried {
		if !found[key] && !k.busy[key] {
			delete(k.tried, key)
		}
	}
}

// work does what is due for one lease. A panic ends the work on it, and not the process, which serves other allocations.
func (k *keeper) work(ctx context.Context, key kept, of state.Allocation, a state.Attachment, l dhcp.Lease) {
	limit := k.limitOf(queue{a.Network, l.Stage(k.now()) == dhcp.Ended})
	limit <- struct{}{}
	defer func() {
		if reason := recover(); reason != nil {
			k.env.Config.Logger.Error("extend a lease of DHCP", "allocation", key.allocation, "interface", key.iface, "error", within.Recovered(reason).CNIError("lease"))
		}
		<-limit
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
		err = k.extend(ctx, n, of, a, l)
	}
	if err != nil && ctx.Err() == nil {
		k.env.Config.Logger.Warn("the lease of DHCP is not extended", "allocation", of.ID, "network", a.Network, "interface", a.Interface, "address", l.Address, "expires", l.Expires(), "error", err)
	}
}

// extend has a lease extended, or replaced if it ended, and what follows from that.
func (k *keeper) extend(ctx context.Context, n kernel.Namespace, of state.Allocation, a state.Attachment, before dhcp.Lease) error {
	h := &hold{keeper: k, allocation: of.ID, attachment: a, before: before}
	if before.Former != nil {
		return k.change(ctx, h, before)
	}
	l, err := k.ask(ctx, n, h)
	if errors.Is(err, errChanged) {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		l.HadDefault = before.HadDefault
		return k.change(ctx, h, l)
	}
	if !errors.Is(err, client.ErrRefused) && before.Stage(k.now()) != dhcp.Ended {
		return err
	}
	lost := before
	lost.Lost, lost.Declined = true, before.Declined || isDeclined(a, before, err)
	switch {
	case !before.Lost:
		err = errors.Join(fmt.Errorf("the address %s is not used any more: %w", lost.Address, err), k.change(ctx, h, lost))
	case !before.Declined && lost.Declined:
		err = errors.Join(err, k.change(ctx, h, lost))
	}
	return err
}

// isDeclined tells whether an error is that another interface has the address of a lease by now, which its server was told.
func isDeclined(a state.Attachment, l dhcp.Lease, err error) bool {
	used, ok := errors.AsType[*client.InUseError](err)
	return ok && used.Address == l.Address.Addr() && !ipam.IsShared(l.ClientID, a.ContainerID)
}

// ask asks servers for what is due. A lease that is refused is replaced: another server may have come.
func (k *keeper) ask(ctx context.Context, n kernel.Namespace, h *hold) (l dhcp.Lease, err error) {
	ctx, stop := context.WithTimeout(ctx, client.Timeout)
	defer stop()
	a, before := h.attachment, h.before
	of := client.Identity{ClientID: before.ClientID, HostName: before.HostName, Shared: ipam.IsShared(before.ClientID, a.ContainerID), Guard: h.guard(ctx)}
	s, err := k.open(ctx, n, a.Interface, before.Family(), of)
	if err != nil {
		return l, err
	}
	defer s.Close()
	switch before.Stage(k.now()) {
	case dhcp.Bound, dhcp.Renewing:
		l, err = s.Renew(ctx, before)
	case dhcp.Rebinding:
		l, err = s.Rebind(ctx, before)
	case dhcp.Ended:
		return acquire(ctx, s, before)
	}
	if !errors.Is(err, client.ErrRefused) {
		return l, err
	}
	l, silence := acquire(ctx, s, before)
	if silence != nil {
		return l, errors.Join(err, silence)
	}
	return l, nil
}

// acquire asks for another lease, of the same address unless that was declined. One that a killed process has asked for its successor gets
// again: it is the same client. Another one that is declined was never that of the attachment, and nothing of it is on record.
func acquire(ctx context.Context, s client.Servers, before dhcp.Lease) (dhcp.Lease, error) {
	return s.Acquire(ctx, ipam.Wanted(&before), func(dhcp.Lease) error { return nil })
}
