// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Adopt takes the blocks that this node had before its state was lost. Another node's are left
// alone even with the machine ID of this one: machines made of one image have the same. inUse
// tells whether a network namespace of the host has an address of a block. A block is taken
// when it was found unused twice, and what had it did not say in between that it is alive: the
// machine may be a clone.
func (l *Leases) Adopt(ctx context.Context, inUse func(b ipam.Block) (bool, error)) ([]ipam.Block, error) {
	var adopted []ipam.Block
	err := l.withSole(ctx, func(s *session) error {
		if err := s.records.mismatch(s.l.Config); err != nil {
			return err
		}
		if err := s.look(ctx); err != nil {
			return err
		}
		maps.DeleteFunc(s.view.Unused, func(path string, _ suspect) bool {
			_, exists := s.view.entries[path]
			return !exists || s.hasRecord(path)
		})
		err := s.others(ctx, func(path string, o *owner) error {
			taken, err := (&adoption{s, inUse}).adopt(ctx, path, o)
			if taken {
				adopted = append(adopted, o.Block)
			}
			return err
		})
		return errors.Join(err, s.view.write())
	})
	return adopted, err
}

// Adopting tells whether Adopt has found a block unused once, and settle after that may take it.
func (l *Leases) Adopting() (bool, error) {
	v, err := readView(l.ledger.dir, moment{})
	return err == nil && len(v.Unused) > 0, err
}

// adoption takes blocks that no network namespace uses.
type adoption struct {
	s     *session
	inUse func(b ipam.Block) (bool, error)
}

func (a *adoption) adopt(ctx context.Context, path string, o *owner) (bool, error) {
	s := a.s
	if o.ours || o.Host.NodeID == "" || o.Host.NodeID != s.host.NodeID {
		return false, nil // it was not this node
	}
	used, err := a.inUse(o.Block)
	if err != nil {
		return false, err
	}
	_, again := s.view.Unused[path]
	ripe := s.view.Unused.ripe(path, o.index, !used, s.now, settle)
	switch {
	case used:
		return false, nil
	case !again:
		return false, challenge(ctx, s.store, s.host, o.Host)
	case !ripe:
		return false, nil
	}
	delete(s.view.Unused, path)
	if alive, err := answered(ctx, s.store, s.host, o.Host.Instance); err != nil || alive {
		return false, err
	}
	return a.take(ctx, path, o)
}

// challenge asks an instance to say that it is alive, which it does when it verifies.
func challenge(ctx context.Context, store ipam.Store, self, h ipam.Host) error {
	path, content := ipam.NodePath(h.Instance), ipam.NodeContent{Host: h}
	entry, err := store.Get(ctx, path)
	switch {
	case errors.Is(err, ipam.ErrNotFound):
		content.Challenger = self.Instance
		_, err = store.Create(ctx, path, ipam.Encode(content))
		return err
	case err != nil:
		return err
	}
	if content, err = ipam.DecodeNode(entry.Content); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if content.Challenger == self.Instance {
		return nil
	}
	content.Challenger = self.Instance
	_, err = store.Update(ctx, path, ipam.Encode(content), entry.Index)
	return err
}

// answered tells whether an instance has said that it is alive since this one challenged it.
func answered(ctx context.Context, store ipam.Store, self ipam.Host, instance string) (bool, error) {
	entry, err := store.Get(ctx, ipam.NodePath(instance))
	if errors.Is(err, ipam.ErrNotFound) {
		return true, nil // the challenge was lost with a snapshot
	}
	if err != nil {
		return false, err
	}
	content, err := ipam.DecodeNode(entry.Content)
	return err != nil || content.Challenger != self.Instance, nil
}

func (a *adoption) take(ctx context.Context, path string, o *owner) (bool, error) {
	s := a.s
	r, err := s.intend(ctx, o.Block)
	if err != nil {
		return false, err
	}
	index, err := s.store.Update(ctx, path, s.content(r), o.index)
	if errors.Is(err, ipam.ErrConflict) {
		return s.findClaim(ctx, r, err)
	}
	if err != nil {
		return false, fmt.Errorf("adopt block %s: %w", o.Block, err)
	}
	return true, s.replace(ctx, r, r.as(Held, r.Claim, index))
}
