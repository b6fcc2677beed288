// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package roster

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/wake"
	"github.com/allocnet/allocnet/isolation"
)

const (
	// pause is between the beginnings of two listings.
	pause = time.Second
	// firstWait is the time after the first failure, and longestWait after more.
	firstWait, longestWait = time.Second, 10 * time.Second
	// confirmEvery is the time after which an entry that has not changed is written again.
	confirmEvery = isolation.MostUnconfirmed / 4
	// abandoned is the time after which the entry of a piece that no host has is removed.
	abandoned = time.Hour
)

// Options are what a Roster needs. All but Logger and Now are required.
type Options struct {
	// Config is that of the pool.
	Config *ipam.Config
	// Open returns the store, and who this host is in it.
	Open func() (ipam.Store, ipam.Host, error)
	// Own returns the attachments of this host. With an error some may be missing, and without any nothing is known.
	Own func(context.Context) ([]isolation.Member, error)
	// Routes returns the interfaces by which the blocks of other hosts are routed.
	Routes func() (map[netip.Prefix]string, error)
	// Known returns what was learned before this process began.
	Known func() ([]isolation.Remote, error)
	// Learn is called with the attachments of other hosts, and the time at which they were read. Zero: not by this process.
	Learn func(ctx context.Context, all []isolation.Remote, read time.Time) error
	// Logger gets a line for each failure that is new. Nil: none.
	Logger hclog.Logger
	// Now is the time. Nil: time.Now.
	Now func() time.Time
}

// Roster is that of one pool.
type Roster struct {
	o     Options
	kicks wake.Signal

	// These are of Run alone. host is who this host is, as far as it is known, and view what was read of the store.
	host ipam.Host
	view *view
	// isKicked: the last listing was given up for a Kick.
	isKicked bool
	// listed is when the last listing began, and read when all of it was read.
	listed, read time.Time
}

// New returns a roster. It reads nothing.
func New(o Options) *Roster {
	o.Logger = cmp.Or(o.Logger, hclog.NewNullLogger())
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Roster{o: o, kicks: wake.NewSignal(), view: newView(o.Config)}
}

// Kick has changes of this host's attachments, or of its routes, looked at soon. It does not wait.
func (r *Roster) Kick() { r.kicks.Send() }

// Run tells and learns until ctx ends.
func (r *Roster) Run(ctx context.Context) {
	wait, before := firstWait, ""
	for ctx.Err() == nil {
		err := r.round(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && before != "":
			r.o.Logger.Info("attachments on other hosts are known again", "pool", r.o.Config.Pool)
		case err != nil && err.Error() != before:
			r.o.Logger.Warn("other hosts and this one do not know of each other's new attachments; those that are known stay so", "pool", r.o.Config.Pool, "error", err)
		}
		if before = ""; err == nil {
			wait = firstWait
			continue
		}
		before = err.Error()
		wake.After(ctx, wait)
		wait = min(2*wait, longestWait)
	}
}

// round waits until the store has something new, or for a while, or for a Kick; the first one does not wait. Then it tells what is to be
// told, and has learned what is known.
func (r *Roster) round(ctx context.Context) error {
	store, host, err := r.o.Open()
	if err == nil && ipam.IsPrivate(store) { // there are no other hosts
		wake.After(ctx, longestWait)
		return nil
	}
	if err == nil {
		r.host = host
		err = r.follow(ctx, store)
	}
	if err == nil {
		err = r.tell(ctx, store)
	} else {
		r.view.Doubt()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(err, r.learn(ctx))
}

// errKicked ends the wait of a listing.
var errKicked = errors.New("there is something to tell")

// follow reads what has changed in the store. A Kick ends its wait, and is looked at before the next listing, which does not wait.
func (r *Roster) follow(ctx context.Context, store ipam.Store) error {
	if r.read.IsZero() || r.isKicked {
		r.isKicked, r.view.IsCurrent = false, false
		return r.list(ctx, store)
	}
	waiting, stop := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-r.kicks:
			stop(errKicked)
		case <-waiting.Done():
		}
	}()
	err := r.list(waiting, store)
	stop(nil)
	<-ended
	if r.isKicked = errors.Is(context.Cause(waiting), errKicked); r.isKicked && ctx.Err() == nil {
		return nil // what was read is the best that is known
	}
	return err
}

func (r *Roster) list(ctx context.Context, store ipam.Store) error {
	if !wake.After(ctx, time.Until(r.listed.Add(pause))) {
		return context.Cause(ctx)
	}
	r.listed = time.Now()
	began := r.o.Now()
	isRestored, err := r.view.List(ctx, store)
	if isRestored {
		r.o.Logger.Warn("the store was restored from a snapshot: all entries are read again", "pool", r.o.Config.Pool)
	}
	if err != nil {
		return err
	}
	if err := r.view.Read(ctx, store, began); err != nil {
		return err
	}
	r.read = began
	return nil
}

// learn has learned what other hosts say. Before this process has read anything that is what was learned before.
func (r *Roster) learn(ctx context.Context) error {
	now := r.o.Now()
	if r.read.IsZero() {
		known, err := r.o.Known()
		if err != nil || len(known) == 0 {
			return err
		}
		for i := range known {
			known[i] = known[i].At(now)
		}
		return r.o.Learn(ctx, known, r.read)
	}
	routes, err := r.o.Routes()
	if err != nil {
		return err
	}
	all := r.view.remotes(r.host.Instance)
	for i := range all {
		all[i] = all[i].At(now)
		all[i].Via = via(routes, all[i].Addresses[0])
	}
	return r.o.Learn(ctx, all, r.read)
}

// via returns the interface by which an address is routed.
func via(routes map[netip.Prefix]string, a netip.Addr) string {
	for bits := a.BitLen(); bits > 0; bits-- {
		if link, ok := routes[netip.PrefixFrom(a, bits).Masked()]; ok {
			return link
		}
	}
	return ""
}

// withdrawal bounds a Withdraw.
const withdrawal = 5 * time.Second

// Withdraw has other hosts know of no attachment of this one any more, when Run has ended. What it cannot remove they know for as long as it is not
// confirmed.
func (r *Roster) Withdraw(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, withdrawal)
	defer stop()
	r.o.Own = func(context.Context) ([]isolation.Member, error) { return nil, nil }
	store, host, err := r.o.Open()
	if err == nil {
		r.host, r.view.IsCurrent = host, false
		err = r.list(ctx, store)
	}
	if err == nil {
		err = r.tell(ctx, store)
	}
	if err != nil {
		r.o.Logger.Warn("other hosts still know of attachments of this one", "pool", r.o.Config.Pool, "error", err)
	}
}
