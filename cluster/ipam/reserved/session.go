// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// session is the use of the store by one process of the host: no other has one.
type session struct {
	a       *Addresses
	store   ipam.Store
	host    ipam.Host
	records map[netip.Addr]*record
	view    *view
	now     clock
	unlock  func()
	// unconfirmed are the addresses that were taken for claim.isNew.
	unconfirmed []netip.Addr
	// isNew: see Guard.
	isNew bool
	// silent are the hosts that were asked for, by instance: see Guard.
	silent map[string]bool
}

// open begins a session. The caller closes it.
func (a *Addresses) open(ctx context.Context) (*session, error) {
	unlock, err := a.o.LockStore(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for another process that uses the store of pool %s: %w", a.o.Config.Pool, err)
	}
	s := &session{a: a, unlock: unlock, now: a.o.Now, silent: map[string]bool{}}
	prepared := false
	defer func() { // also if the store panics: the engine recovers
		if !prepared {
			unlock()
		}
	}()
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	prepared = true
	return s, nil
}

func (s *session) prepare(ctx context.Context) (err error) {
	m, err := s.a.records.remembered()
	if err != nil {
		return err
	}
	if s.store, s.host, err = s.a.o.Open(); err != nil {
		return err
	}
	s.view = newView(s.a, s.store, m)
	if s.isNew, err = s.a.o.Guard.Identify(ctx, s.store, s.host); err != nil {
		return err
	}
	s.records, err = s.a.records.load(ctx)
	return err
}

// close ends the session. What is remembered is a help: that it cannot be written is no error.
func (s *session) close() {
	if err := s.a.records.remember(s.view.memory); err != nil {
		s.a.o.Logger.Warn("remember the entries of the store", "error", err)
	}
	s.unlock()
}

// clock tells the time.
type clock func() time.Time

// age returns how long ago something was. What is in the future is now.
func (now clock) age(t time.Time) time.Duration { return max(0, now().Sub(t)) }

// put changes the record of an address. It returns false if another process changed it,
// which only marks what is to be given back.
func (s *session) put(ctx context.Context, address netip.Addr, changed *record) (bool, error) {
	done, err := s.a.records.replace(ctx, address, s.records[address], changed)
	if err != nil || !done {
		return false, err
	}
	if s.records[address] = changed; changed == nil {
		delete(s.records, address)
	}
	return true, nil
}

// mustPut is put for a record that no other process should change.
func (s *session) mustPut(ctx context.Context, address netip.Addr, changed *record) error {
	done, err := s.put(ctx, address, changed)
	if err == nil && !done {
		err = fmt.Errorf("reserved address %s was given back while it was taken", address)
	}
	return err
}

// newClaim returns what distinguishes one write from all others.
func newClaim() string { return rand.Text() }

func sorted[V any](m map[netip.Addr]V) []netip.Addr {
	return slices.SortedFunc(maps.Keys(m), netip.Addr.Compare)
}
