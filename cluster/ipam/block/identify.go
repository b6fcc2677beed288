// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Identify fails with ipam.ErrTwin if another machine has this host's instance. It returns
// whether one may have it that has had no time to say so: then nothing is to be given back. The
// instance is in the store then. The caller has locked the store.
func (l *Leases) Identify(ctx context.Context, store ipam.Store, host ipam.Host) (isNew bool, err error) {
	s := &session{Leases: l, store: store, host: host, now: l.moment(host.Boot)}
	err = s.registerAs(ctx, &registration{})
	return s.isNew, err
}

// Wrote tells whether this machine may have written an entry of its instance, which says by which
// host: a copy of it that was refused has written others. The caller has locked the store.
func (l *Leases) Wrote(ctx context.Context, store ipam.Store, self, by ipam.Host) (bool, error) {
	s := &session{Leases: l, store: store, host: self, now: l.moment(self.Boot)}
	if err := s.registerAs(ctx, &registration{}); err != nil {
		return false, err
	}
	return !s.copied || s.isOurBoot(by.Boot), nil
}

// Agree makes this host's configuration of the pool that of all hosts, or fails with
// ipam.ErrMismatch if they have another one. The caller has locked the store.
func (l *Leases) Agree(ctx context.Context, store ipam.Store) error {
	self, err := l.self()
	if err != nil {
		return err
	}
	s := &session{Leases: l, store: store, host: self.Host, now: l.moment(self.Boot)}
	if err := s.load(ctx); err != nil {
		return err
	}
	return s.agree(ctx)
}
