// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Reclaimed is a block whose entry was deleted, and whose it was.
type Reclaimed struct {
	Block ipam.Block
	Host  ipam.Host
}

// Reclaim deletes the blocks of nodes that are gone, if they were so a grace before, too, and whose
// host has not written its entry for so long that it gives out no address any more; with no grace
// at once. gone is asked with the ID of a node: Nomad may have been told to forget one that lives.
// It also deletes what nodes that are gone have below nodes/, and blocks of this host that it has
// no record of.
func (l *Leases) Reclaim(ctx context.Context, grace time.Duration, gone func(ctx context.Context, nodeID string) (bool, error)) ([]Reclaimed, error) {
	var reclaimed []Reclaimed
	err := l.withSole(ctx, func(s *session) error {
		if err := s.look(ctx); err != nil {
			return err
		}
		c := &reclaimer{s: s, grace: grace, gone: gone, answers: map[string]bool{}, silent: map[string]bool{}}
		err := s.others(ctx, func(path string, o *owner) error {
			deleted, err := c.examine(ctx, path, o)
			if deleted {
				reclaimed = append(reclaimed, Reclaimed{o.Block, o.Host})
			}
			return err
		})
		return errors.Join(err, c.examineNodes(ctx), s.view.write())
	})
	return reclaimed, err
}

// reclaimer asks once for each node.
type reclaimer struct {
	s       *session
	grace   time.Duration
	gone    func(ctx context.Context, nodeID string) (bool, error)
	answers map[string]bool
	// silent are the hosts that were asked for, by instance.
	silent map[string]bool
}

// examine deletes the entry of a block if its time has come.
func (c *reclaimer) examine(ctx context.Context, path string, o *owner) (deleted bool, err error) {
	if o.isOfCopy {
		return false, nil
	}
	if o.ours {
		used, err := c.s.l.ledger.used(ctx, o.Block)
		if c.s.place.isNew || err != nil {
			return false, err
		}
		if used { // the records were lost, and the leases were not
			return false, c.regain(ctx, o)
		}
		if _, again := c.s.view.Useless[path]; !again {
			if err := c.s.challengeCopies(ctx); err != nil { // a copy of this machine may have claimed it
				return false, err
			}
		}
		return c.deleteOnce(ctx, path, o.index, true, settle)
	}
	useless, err := c.isUseless(ctx, o.Host)
	if err != nil {
		return false, err
	}
	return c.deleteOnce(ctx, path, o.index, useless, c.grace)
}

// regain makes the missing record of a block that is this host's.
func (c *reclaimer) regain(ctx context.Context, o *owner) error {
	r, err := c.s.intend(ctx, o.Block)
	if err != nil {
		return err
	}
	return c.s.replace(ctx, r, r.found(o))
}

// isUseless tells whether what a host has is of no use: its node is gone, and, unless an operator
// says so, the host has been silent.
func (c *reclaimer) isUseless(ctx context.Context, h ipam.Host) (bool, error) {
	silent, ok := c.silent[h.Instance]
	if !ok && c.grace > 0 {
		var err error
		if silent, err = c.s.isSilent(ctx, h.Instance); err != nil {
			return false, err
		}
		c.silent[h.Instance] = silent
	}
	if !silent && c.grace > 0 {
		return false, nil
	}
	return c.isGone(ctx, h)
}

func (c *reclaimer) isGone(ctx context.Context, h ipam.Host) (bool, error) {
	if h.NodeID == "" || h.NodeID == c.s.host.NodeID {
		return false, nil
	}
	answer, ok := c.answers[h.NodeID]
	if ok {
		return answer, nil
	}
	answer, err := c.gone(ctx, h.NodeID)
	if err != nil {
		return false, fmt.Errorf("whether node %s is gone: %w", h.NodeID, err)
	}
	c.answers[h.NodeID] = answer
	return answer, nil
}

// deleteOnce deletes an entry that has been of no use for the grace.
func (c *reclaimer) deleteOnce(ctx context.Context, path string, index uint64, useless bool, grace time.Duration) (bool, error) {
	if !c.s.view.Useless.ripe(path, index, useless, c.s.now, grace) {
		return false, nil
	}
	if err := c.s.store.Delete(ctx, path, index); err != nil {
		return false, fmt.Errorf("reclaim %s: %w", path, err)
	}
	delete(c.s.view.Useless, path)
	return true, nil
}

// ripe notes a suspicion, or that there is none, and tells whether it is old enough.
func (all suspects) ripe(path string, index uint64, suspicious bool, now moment, age time.Duration) bool {
	if !suspicious {
		delete(all, path)
		return false
	}
	if s, ok := all[path]; !ok || s.Index != index {
		all[path] = suspect{index, now}
	}
	return !now.within(age, all[path].At)
}

// examineNodes deletes what nodes that are gone have below nodes/.
func (c *reclaimer) examineNodes(ctx context.Context) error {
	listing, err := c.s.store.List(ctx, ipam.NodePath(""), 0)
	if err != nil {
		return err
	}
	for _, e := range listing.Entries {
		entry, err := c.s.store.Get(ctx, e.Path)
		if errors.Is(err, ipam.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		content, err := ipam.DecodeNode(entry.Content)
		if err != nil {
			continue // unknown: it stays
		}
		useless, err := c.isUseless(ctx, content.Host)
		if err != nil {
			return err
		}
		if _, err := c.deleteOnce(ctx, e.Path, entry.Index, useless, c.grace); err != nil && !errors.Is(err, ipam.ErrConflict) {
			return err
		}
	}
	return nil
}

// others calls do for the entries of blocks that no record of this host has.
func (s *session) others(ctx context.Context, do func(path string, o *owner) error) error {
	for _, path := range slices.Sorted(maps.Keys(s.view.entries)) {
		if s.hasRecord(path) {
			continue
		}
		o, err := s.owner(ctx, path)
		if err == nil && o != nil && o.err == nil {
			err = do(path, o)
		}
		if err != nil && !errors.Is(err, ipam.ErrConflict) {
			return err
		}
	}
	return nil
}
