// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// session is the use of the store by one process of the host at a time.
type session struct {
	l     *Leases
	store ipam.Store
	host  ipam.Host
	// records are as of the last change, and view as of the last listing.
	records *records
	view    *view
	// now is when the session began, or has listed the blocks.
	now moment
	// place is what the store says of this machine, and twin why nothing but what this host has may be
	// written. Nil: it is the only one with its instance.
	place place
	twin  error
	// endpoint is where this host is reached. Nil: it is not known.
	endpoint *ipam.Endpoint
}

// withReader calls do under store.lock, for what writes nothing to the store.
func (l *Leases) withReader(ctx context.Context, do func(s *session) error) error {
	unlock, err := l.ledger.dir.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if ctx.Err() != nil { // the connection has no context, and may take a while
		return context.Cause(ctx)
	}
	store, host, err := l.Connect()
	if err != nil {
		return err
	}
	s := l.session(store, host)
	if err := s.load(ctx); err != nil {
		return err
	}
	return do(s)
}

// session returns one that knows neither its records nor what it saw.
func (l *Leases) session(store ipam.Store, host ipam.Host) *session {
	return &session{l: l, store: store, host: host, now: l.machine.moment(host.Boot)}
}

// withStore is withReader, once the host has made sure that it is no clone. A clone may create
// again what is missing, because that is right for both, and nothing else.
func (l *Leases) withStore(ctx context.Context, do func(s *session) error) error {
	return l.withReader(ctx, func(s *session) error {
		n, err := l.machine.read(s.host.Instance)
		if err != nil {
			return err
		}
		// Others may be about to delete blocks of a host that was silent for its fence, and one whose
		// state directory was restored may have given them back.
		_, isOld := s.records.expired(n, s.now)
		if s.twin = s.register(ctx, registration{mayWait: true}); s.twin != nil && !errors.Is(s.twin, ipam.ErrTwin) {
			return fmt.Errorf("register this host in the store: %w", s.twin)
		}
		if isOld || s.records.doubted {
			if err := s.edit(ctx, func(r *records) error { r.close(); return nil }); err != nil {
				return err
			}
		}
		return do(s)
	})
}

// withSole is withStore for what a clone may not do.
func (l *Leases) withSole(ctx context.Context, do func(s *session) error) error {
	return l.withStore(ctx, func(s *session) error {
		if s.twin != nil {
			return s.twin
		}
		return do(s)
	})
}

// load reads the records under the lease lock, so that a write that has not ended is waited for.
func (s *session) load(ctx context.Context) error {
	unlock, err := s.l.Addresses.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if s.records, err = s.l.ledger.read(s.host.Instance); err != nil {
		return err
	}
	if s.endpoint, err = readEndpoint(s.l.ledger.dir, s.host.Instance); err != nil { // stops nothing but that others are told
		s.l.Logger.Warn("the endpoint of this host is not known", "error", err)
	}
	s.view, err = readView(s.l.ledger.dir, s.now)
	return err
}

func (s *session) path(b ipam.Block) string { return ipam.BlockPath(s.l.Config.Pool, b) }

// owner is what the store says of a block.
type owner struct {
	ipam.BlockContent
	index uint64
	// err is why the content is of no use: the block is another's, whatever it says.
	err error
	// ours: it is of this host's instance.
	ours bool
	// isKnown: this machine has made the claim. Another one is that of lost records, or of a copy of this
	// machine with its memory.
	isKnown bool
	// mayBeOurs: this machine may have made the claim, in one of its boots if it does not remember it. Others
	// are those of a copy that was refused.
	mayBeOurs bool
	// isOfCopy: it is that of a copy, which was refused. The copy may still have addresses of the block: an
	// operator knows.
	isOfCopy bool
}

// isOurs is false if there is no entry.
func (o *owner) isOurs() bool { return o != nil && o.ours }

// owner reads the entry of a block. Nil: there is none.
func (s *session) owner(ctx context.Context, path string) (*owner, error) {
	entry, err := s.store.Get(ctx, path)
	if errors.Is(err, ipam.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	o := &owner{index: entry.Index}
	if o.BlockContent, o.err = ipam.DecodeBlock(entry.Content, s.l.Config); o.err == nil && s.path(o.Block) != path {
		o.err = fmt.Errorf("the content is that of the block %s", o.Block)
	}
	if o.err != nil || o.Host.Instance != s.host.Instance {
		return o, nil
	}
	o.ours = true
	o.isKnown = slices.ContainsFunc(s.records.Blocks, func(r Record) bool { return s.path(r.Block) == path && r.Claim == o.ClaimID }) ||
		slices.Contains(s.view.Past, past{path, o.ClaimID})
	o.mayBeOurs = o.isKnown || s.place.isOurBoot(s.host, o.Host.Boot)
	o.isOfCopy = s.place.copied && !o.mayBeOurs
	if s.place.registered || o.isKnown {
		return o, nil
	}
	if err := s.register(ctx, registration{}); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("block %s: %w: the store has it as this host's, which did not claim it", o.Block, ipam.ErrConflict)
}

func (s *session) hasRecord(path string) bool {
	return slices.ContainsFunc(s.records.Blocks, func(r Record) bool { return s.path(r.Block) == path })
}

// content is what the store gets to say of a record.
func (s *session) content(r Record) []byte {
	return ipam.Encode(ipam.BlockContent{
		Pool: s.l.Config.Pool, PoolHash: s.l.Config.Hash(), Block: r.Block,
		Host: s.host, ClaimID: r.Claim, Claimed: r.Since, Endpoint: r.Endpoint,
	})
}
