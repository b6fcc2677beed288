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

const endpointFile, endpointVersion = "endpoint.json", 1

// endpoint is where this host is reached, for each process that claims a block.
type endpoint struct {
	Version int `json:"version"`
	// Instance is whose it is. That of an earlier instance is of no use.
	Instance string `json:"instance"`
	// Endpoint is the zero one of a host that is not to be reached any more.
	Endpoint ipam.Endpoint `json:"endpoint"`
}

// SetEndpoint records where this host is reached, and writes it to the store's entries of the
// blocks that the host has. An error of the store leaves that to Verify, or to the next call. The
// zero one: other hosts are not to reach the blocks any more. Nothing is written if nothing
// changes.
func (l *Leases) SetEndpoint(ctx context.Context, e ipam.Endpoint) error {
	if err := e.Validate(); err != nil && e != (ipam.Endpoint{}) {
		return err
	}
	instance, err := l.instance()
	if err != nil {
		return err
	}
	recorded, err := readEndpoint(l.ledger.dir, instance)
	if err != nil {
		l.Logger.Warn("the endpoint of this host is recorded again", "error", err)
	}
	if recorded == nil || *recorded != e {
		if err := writeEndpoint(ctx, l.ledger.dir, endpoint{endpointVersion, instance, e}); err != nil {
			return err
		}
	}
	r, err := l.ledger.read(instance)
	isElsewhere := func(r Record) bool { return r.State == Held && r.Endpoint != e }
	if err != nil || !slices.ContainsFunc(r.Blocks, isElsewhere) {
		return err
	}
	return l.withSole(ctx, func(s *session) error { return s.announce(ctx) })
}

// IsReached tells whether it is on record where this host is reached.
func (l *Leases) IsReached() (bool, error) {
	self, err := l.machine.self()
	if err != nil {
		return false, err
	}
	e, err := readEndpoint(l.ledger.dir, self.Instance)
	return e != nil && *e != ipam.Endpoint{}, err
}

// instance returns that of this host. The first connection makes it, even if there is no store.
func (l *Leases) instance() (string, error) {
	self, err := l.machine.self()
	if err != nil || self.Instance != "" {
		return self.Instance, err
	}
	_, _, unconnected := l.Connect()
	if self, err = l.machine.self(); err == nil && self.Instance == "" {
		err = unconnected
	}
	return self.Instance, err
}

// writeEndpoint waits for processes that use the store, so that what they claimed with the old
// endpoint is on record.
func writeEndpoint(ctx context.Context, dir disk, e endpoint) error {
	unlock, err := dir.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return writeJSON(dir, endpointFile, e)
}

// readEndpoint returns where this host is reached. Nil: it is not known.
func readEndpoint(dir disk, instance string) (*ipam.Endpoint, error) {
	var e *endpoint
	err := readJSON(dir, endpointFile, endpointVersion, &e)
	switch {
	case err != nil:
	case e == nil, e.Instance != instance && e.Version == endpointVersion:
		return nil, nil
	case e.Version != endpointVersion:
		err = fmt.Errorf("version is %d, want %d: it was written by another release", e.Version, endpointVersion)
	case e.Endpoint != ipam.Endpoint{}:
		err = e.Endpoint.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: blocks are claimed without an endpoint, and other hosts do not reach them; start the agent, which writes the file", dir.pathOf(endpointFile), err)
	}
	return &e.Endpoint, nil
}

// reached returns the record of a block that is claimed now.
func (s *session) reached(r Record) Record {
	if s.endpoint != nil {
		r.Endpoint = *s.endpoint
	}
	return r
}

// announce writes the entries of blocks that do not say where this host is reached, or which node it
// is, and of those that are not open yet. A machine that may be the copy of another one in its place
// waits until that one had time to say so: traffic would go to the copy, and the original could not
// change that any more. What it has written in this boot is its own: the copy of a disk is in
// another boot than the original.
//
// A block that opens is written though nothing else changes: a request of before, which deletes the
// entry with the index that it had, may still arrive.
func (s *session) announce(ctx context.Context) error {
	var errs []error
	for _, r := range slices.Clone(s.records.Blocks) {
		now := s.reached(r)
		now.NodeID, now.Boot = s.host.NodeID, s.host.Boot
		if r.State == Held && now != r && (s.place.unopposed || r.isOpen(s.host.Boot)) {
			errs = append(errs, s.announceBlock(ctx, r, now))
		}
	}
	return errors.Join(errs...)
}

// announceBlock reads the entry first: in a store that was restored, another's may have its index.
func (s *session) announceBlock(ctx context.Context, was, now Record) error {
	path := s.path(was.Block)
	o, err := s.owner(ctx, path)
	if o.isOurs() && o.index == was.Index {
		if now.Index, err = s.store.Update(ctx, path, s.content(now), o.index); err == nil {
			return s.replace(ctx, was, now)
		}
		o, _ = s.owner(ctx, path) // the answer may be all that was lost
	} else if err == nil {
		err = ipam.ErrConflict
	}
	if o.isOurs() && o.Endpoint == now.Endpoint {
		return s.keep(ctx, was, was.found(o))
	}
	return fmt.Errorf("block %s: write the endpoint of this host: %w", was.Block, err)
}
