// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"context"
	"errors"
	"net/netip"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// confirm keeps the new addresses of a request, unless other hosts have taken some at the same
// time for the same key, or so many for the job that it has too many: then these are given
// back. Hosts that write first and read then cannot all miss each other, but may all give
// back: they begin again at different times.
func (s *session) confirm(ctx context.Context, request ipam.Request) error {
	if len(s.unconfirmed) == 0 {
		return nil
	}
	if err := s.refresh(ctx, true); err != nil {
		return err
	}
	for _, address := range s.unconfirmed {
		if rival := s.rival(request, address); rival != nil {
			return errors.Join(rival, s.withdraw(ctx))
		}
	}
	for _, address := range s.unconfirmed {
		r := *s.records[address]
		r.Drop = false
		if err := s.mustPut(ctx, address, &r); err != nil {
			return err
		}
	}
	return nil
}

// rival returns why a new address has to be given back. Nil: it is kept.
func (s *session) rival(request ipam.Request, address netip.Addr) error {
	e := s.view.at(address)
	for _, other := range sorted(s.view) {
		if len(request.Addresses) == 0 && other != address && s.view[other].isFor(request.Job, ipam.FamilyOf(address)) {
			return &BusyError{Address: other, Reason: "another host took it for the same key"}
		}
	}
	limit := s.a.o.Config.MaxReservedPerJob
	if limit > 0 && request.Job.Job != "" && !e.content.Reserved && s.countOf(request.Job) > limit {
		return &BusyError{Address: address, Reason: "other hosts took addresses for job " + request.Job.Job + " at the same time, and maxReservedPerJob allows fewer"}
	}
	return nil
}

// withdraw gives back what is not confirmed. What the store is not told now, it is later.
func (s *session) withdraw(ctx context.Context) error {
	for _, address := range s.unconfirmed {
		r := *s.records[address]
		r.State, r.Released = releasing, s.now()
		err := errors.Join(s.mustPut(ctx, address, &r), s.a.o.Leases.Remove(ctx, address, r.Content.Owner))
		if err != nil {
			return err
		}
		if err := s.release(ctx, address, &r); err != nil {
			s.a.o.Logger.Warn("give back a reserved address: it is repeated later", "address", address, "error", err)
		}
	}
	return nil
}
