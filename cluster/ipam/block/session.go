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
	*Leases
	store ipam.Store
	host  ipam.Host
	// records are as of the last change, and view as of the last listing.
	records *records
	view    *view
	// now is when the session began.
	now moment
	// trusted: see Leases. One that verifies has taken it from there.
	trusted bool
	// twin is why nothing but what this host has may be written. Nil: it is the only one with
	// its instance.
	twin error
	// isNew: this machine has had its instance for so short a time in this boot that another
	// one may not have said yet that it has, too.
	isNew bool
	// isReset: the store did not have the last nonce of this machine, so that others may not have seen it.
	isReset bool
	// registered: this machine has written a nonce.
	registered bool
	// copied: a copy of this machine has been refused. boots are those of this machine.
	copied bool
	boots  []string
	// unopposed: what this machine has written, if it has, has been there for so long that another
	// one with its instance has seen it.
	unopposed bool
	// endpoint is where this host is reached. Nil: it is not known.
	endpoint *ipam.Endpoint
}

// withReader calls do under store.lock, for what writes nothing to the store.
func (l *Leases) withReader(ctx context.Context, do func(s *session) error) error {
	unlock, err := l.pool.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if ctx.Err() != nil { // the connection has no context, and may take a while
		return context.Cause(ctx)
	}
	s := &session{Leases: l}
	if s.store, s.host, err = l.Connect(); err != nil {
		return err
	}
	s.now = l.moment(s.host.Boot)
	if err := s.load(ctx); err != nil {
		return err
	}
	return do(s)
}

// withStore is withReader, once the host has made sure that it is no clone. A clone may create
// again what is missing, because that is right for both, and nothing else.
func (l *Leases) withStore(ctx context.Context, do func(s *session) error) error {
	return l.withReader(ctx, func(s *session) error {
		isOld, err := s.isOld()
		if err != nil {
			return err
		}
		if err := s.register(ctx); err != nil && !errors.Is(err, ipam.ErrTwin) {
			return fmt.Errorf("register this host in the store: %w", err)
		} else if err != nil {
			s.twin = err
		}
		if isOld {
			if err := s.edit(ctx, func(r *records) error { r.close(); return nil }); err != nil {
				return err
			}
		}
		return do(s)
	})
}

// isOld tells whether blocks are to be closed that others may be about to delete, or that this host
// has given back: its state directory was restored, or it was silent for its fence.
func (s *session) isOld() (bool, error) {
	n, err := s.readNode(s.host.Instance)
	if err != nil {
		return false, err
	}
	_, expired := s.records.expired(n, s.now)
	return expired || s.records.doubted, nil
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
	unlock, err := s.Addresses.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if s.records, err = s.readRecords(s.host.Instance); err != nil {
		return err
	}
	s.loadEndpoint()
	s.view, err = s.readView(s.now)
	return err
}

func (s *session) path(b ipam.Block) string { return ipam.BlockPath(s.Config.Pool, b) }

// owner is what the store says of a block.
type owner struct {
	ipam.BlockContent
	index uint64
	// err is why the content is of no use: the block is another's, whatever it says.
	err error
}

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
	if o.BlockContent, o.err = ipam.DecodeBlock(entry.Content, s.Config); o.err == nil && s.path(o.Block) != path {
		o.err = fmt.Errorf("the content is that of the block %s", o.Block)
	}
	if s.registered || !s.owns(o) || s.knows(path, o.ClaimID) {
		return o, nil
	}
	if err := s.registerAs(ctx, &registration{}); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("block %s: %w: the store has it as this host's, which did not claim it", o.Block, ipam.ErrConflict)
}

// knows tells whether a claim of a block is one that this host has made. Another one is that of
// lost records, or of a copy of this machine with its memory.
func (s *session) knows(path, claim string) bool {
	return slices.ContainsFunc(s.records.Blocks, func(r Record) bool { return s.path(r.Block) == path && r.Claim == claim }) ||
		slices.Contains(s.view.Past, past{path, claim})
}

// mayBeOurs tells whether this machine may have made the claim of an entry of its instance: in one
// of its boots, if it does not remember it. Others are those of a copy that was refused.
func (s *session) mayBeOurs(b ipam.Block, o *owner) bool {
	return s.knows(s.path(b), o.ClaimID) || s.isOurBoot(o.Host.Boot)
}

// isOfCopy tells whether an entry of this machine's instance is that of a copy, which was refused. The copy may still
// have addresses of the block: an operator knows.
func (s *session) isOfCopy(b ipam.Block, o *owner) bool {
	return s.copied && s.owns(o) && !s.mayBeOurs(b, o)
}

func (s *session) isOurBoot(boot string) bool {
	return boot == s.host.Boot || slices.Contains(s.boots, boot)
}

func (s *session) owns(o *owner) bool {
	return o != nil && o.err == nil && o.Host.Instance == s.host.Instance
}

// content is what the store gets to say of a record.
func (s *session) content(r Record) []byte {
	return ipam.Encode(ipam.BlockContent{
		Pool: s.Config.Pool, PoolHash: s.Config.Hash(), Block: r.Block,
		Host: s.host, ClaimID: r.Claim, Claimed: r.Since, Endpoint: r.Endpoint,
	})
}
