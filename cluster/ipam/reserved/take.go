// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// pollInterval is how often Take asks whether an address has become free.
const pollInterval = 500 * time.Millisecond

const attempts = 8

// Held returns the addresses that an attachment of this host has. It does not use the store.
func (a *Addresses) Held(ctx context.Context, owner ipam.Owner) ([]netip.Addr, error) {
	records, err := a.records.load(ctx)
	if err != nil {
		return nil, err
	}
	var found []netip.Addr
	for _, address := range sorted(records) {
		r := records[address]
		if r.State != held || r.Drop || r.Content.Owner != owner {
			continue
		}
		leased, ok, err := a.o.Leases.Owner(ctx, address)
		if err != nil {
			return nil, err
		}
		if ok && leased == owner {
			found = append(found, address)
		}
	}
	return found, nil
}

// Take makes the attachment hold addresses and makes their leases: the requested ones, or, if
// none is requested, one of each family (4, 6) by the key of the job. It returns all or none.
// Those that the attachment holds already are the same again, without the store. Others that it
// holds stay, until FreeOthers ends the change. It waits
// until ctx ends for addresses that the same job holds elsewhere, then the error is a
// BusyError. RefusedError: the addresses are another's. Of other errors, ipam.ErrInvalid is a job that has enough, and
// ipam.ErrExhausted that none is left for the key.
func (a *Addresses) Take(ctx context.Context, request ipam.Request, families []ipam.Family) ([]netip.Addr, error) {
	before, err := a.Held(ctx, request.Owner)
	if err != nil {
		return nil, err
	}
	if found := a.satisfied(request, families, before); found != nil {
		return found, nil
	}
	found, err := a.await(ctx, request, families)
	if err != nil {
		return nil, errors.Join(err, a.Restore(ctx, request.Owner, before))
	}
	return found, nil
}

// satisfied returns those of the held addresses that the request is for, or nil.
func (a *Addresses) satisfied(request ipam.Request, families []ipam.Family, before []netip.Addr) []netip.Addr {
	for _, address := range request.Addresses {
		if !slices.Contains(before, address) {
			return nil
		}
	}
	if len(request.Addresses) > 0 {
		return request.Addresses
	}
	var found []netip.Addr
	for _, family := range families {
		i := slices.IndexFunc(before, func(address netip.Addr) bool { return ipam.FamilyOf(address) == family })
		if i < 0 {
			return nil
		}
		found = append(found, before[i])
	}
	return found
}

// await attempts to take the addresses until they are free. The store is locked for the
// attempts only. It is not the store that is waited for but Nomad's word, or time to pass.
func (a *Addresses) await(ctx context.Context, request ipam.Request, families []ipam.Family) ([]netip.Addr, error) {
	for agreed := false; ; {
		found, err := a.attempt(ctx, request, families, &agreed)
		var busy *BusyError
		if !errors.As(err, &busy) || a.sleep(ctx, max(pollInterval, busy.wait)) != nil {
			return found, err
		}
	}
}

// attempt attempts to take the addresses. The hosts' configurations are compared once.
func (a *Addresses) attempt(ctx context.Context, request ipam.Request, families []ipam.Family, agreed *bool) ([]netip.Addr, error) {
	s, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if !*agreed {
		if err := s.a.o.Guard.Agree(ctx, s.store); err != nil {
			return nil, err
		}
		*agreed = true
	}
	if err := s.refresh(ctx, true); err != nil {
		return nil, err
	}
	found, err := s.takeAll(ctx, request, families)
	if err == nil {
		err = s.confirm(ctx, request)
	}
	return found, err
}

// takeAll takes the addresses. Those that are new are to be confirmed.
func (s *session) takeAll(ctx context.Context, request ipam.Request, families []ipam.Family) ([]netip.Addr, error) {
	if len(request.Addresses) > 0 {
		return request.Addresses, s.takeRequested(ctx, request)
	}
	var found []netip.Addr
	for _, family := range families {
		address, err := s.takeByKey(ctx, request, family)
		if err != nil {
			return nil, err
		}
		found = append(found, address)
	}
	return found, nil
}

func (s *session) takeRequested(ctx context.Context, request ipam.Request) error {
	request.Job.Key = "" // the addresses are kept for nothing but what an operator says
	for _, address := range request.Addresses {
		if !s.a.o.Config.IsReserved(address) {
			return &RefusedError{address, "it is in none of the pool's reserved ranges"}
		}
		if err := s.take(ctx, address, claimant{Request: request}); err != nil {
			return err
		}
	}
	return nil
}
