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

// Silent tells whether a host has not written its entry below nodes/ for so long, by the uptime of
// this one, that it gives out no address any more. The caller has locked the store.
func (l *Leases) Silent(ctx context.Context, store ipam.Store, self ipam.Host, instance string) (bool, error) {
	s := &session{Leases: l, store: store, host: self, now: l.moment(self.Boot)}
	if err := s.load(ctx); err != nil {
		return false, err
	}
	silent, err := s.isSilent(ctx, instance)
	return silent, errors.Join(err, s.writeView())
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
