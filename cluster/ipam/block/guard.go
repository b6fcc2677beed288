// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Identify is that of reserved.Guard: it fails with ipam.ErrTwin. The instance is in the store then.
func (l *Leases) Identify(ctx context.Context, store ipam.Store, host ipam.Host) (isNew bool, err error) {
	s := l.session(store, host)
	err = s.register(ctx, registration{})
	return s.place.isNew, err
}

// Wrote is that of reserved.Guard.
func (l *Leases) Wrote(ctx context.Context, store ipam.Store, self, by ipam.Host) (bool, error) {
	s := l.session(store, self)
	if err := s.register(ctx, registration{}); err != nil {
		return false, err
	}
	return !s.place.copied || s.place.isOurBoot(self, by.Boot), nil
}

// Agree is that of reserved.Guard: it makes this host's configuration of the pool that of all hosts if there is none.
func (l *Leases) Agree(ctx context.Context, store ipam.Store) error {
	self, err := l.machine.self()
	if err != nil {
		return err
	}
	s := l.session(store, self.Host)
	if err := s.load(ctx); err != nil {
		return err
	}
	return s.agree(ctx)
}

// Silent is that of reserved.Guard. How long a host has not written its entry below nodes/, the uptime of this one tells.
func (l *Leases) Silent(ctx context.Context, store ipam.Store, self ipam.Host, instance string) (bool, error) {
	s := l.session(store, self)
	if err := s.load(ctx); err != nil {
		return false, err
	}
	silent, err := s.isSilent(ctx, instance)
	return silent, errors.Join(err, s.view.write())
}

// isSilent notes the index of a host's entry, and tells whether it is the same for long enough. A
// host that has none writes one as soon as it verifies.
func (s *session) isSilent(ctx context.Context, instance string) (bool, error) {
	path, fence := ipam.NodePath(instance), cmp.Or(time.Duration(s.records.Fence), defaultFence)
	entry, err := s.store.Get(ctx, path)
	if err != nil && !errors.Is(err, ipam.ErrNotFound) {
		return false, err
	}
	if content, err := ipam.DecodeNode(entry.Content); err == nil {
		fence = max(fence, time.Duration(content.Fence))
	}
	if noted, ok := s.view.Silent[path]; ok && err != nil { // another pool or host has deleted it: that says nothing of the host
		entry.Index = noted.Index
	}
	return s.view.Silent.ripe(path, entry.Index, true, s.now, max(fence, defaultFence)+silence), nil
}

// Answers is that of reserved.Guard: yes if the instance was not asked yet.
func (*Leases) Answers(ctx context.Context, store ipam.Store, self ipam.Host, instance string) (bool, error) {
	answers, err := answered(ctx, store, self, instance)
	if err != nil || !answers {
		return false, err
	}
	return true, challenge(ctx, store, self, ipam.Host{Instance: instance, NodeID: self.NodeID, NodeName: self.NodeName})
}
