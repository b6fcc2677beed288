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
	if err := s.view.refresh(ctx, true); err != nil {
		return nil, err
	}
	t := &attempt{s, request}
	found, err := t.take(ctx, families)
	if err == nil {
		err = t.confirm(ctx)
	}
	return found, err
}

// attempt is one to take the addresses of a request.
type attempt struct {
	s       *session
	request ipam.Request
}

// take takes the addresses. Those that are new are to be confirmed.
func (t *attempt) take(ctx context.Context, families []ipam.Family) ([]netip.Addr, error) {
	if len(t.request.Addresses) > 0 {
		return t.request.Addresses, t.takeRequested(ctx)
	}
	var found []netip.Addr
	for _, family := range families {
		address, err := t.takeByKey(ctx, family)
		if err != nil {
			return nil, err
		}
		found = append(found, address)
	}
	return found, nil
}

func (t *attempt) takeRequested(ctx context.Context) error {
	request := t.request
	request.Job.Key = "" // the addresses are kept for nothing but what an operator says
	for _, address := range request.Addresses {
		if !t.s.a.o.Config.IsReserved(address) {
			return &RefusedError{address, "it is in none of the pool's reserved ranges"}
		}
		if err := (&claim{s: t.s, address: address, Request: request}).take(ctx); err != nil {
			return err
		}
	}
	return nil
}

// confirm keeps the new addresses of a request, unless other hosts have taken some at the same
// time for the same key, or so many for the job that it has too many: then these are given
// back. Hosts that write first and read then cannot all miss each other, but may all give
// back: they begin again at different times.
func (t *attempt) confirm(ctx context.Context) error {
	s := t.s
	if len(s.unconfirmed) == 0 {
		return nil
	}
	if err := s.view.refresh(ctx, true); err != nil {
		return err
	}
	for _, address := range s.unconfirmed {
		if rival := t.rival(address); rival != nil {
			return errors.Join(rival, t.withdraw(ctx))
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
func (t *attempt) rival(address netip.Addr) error {
	view, job := t.s.view, t.request.Job
	for _, other := range sorted(view.entries) {
		if len(t.request.Addresses) == 0 && other != address && view.entries[other].isFor(job, ipam.FamilyOf(address)) {
			return &BusyError{Address: other, Reason: "another host took it for the same key"}
		}
	}
	limit := t.s.a.o.Config.MaxReservedPerJob
	if limit > 0 && job.Job != "" && !view.at(address).content.Reserved && view.countOf(job) > limit {
		return &BusyError{Address: address, Reason: "other hosts took addresses for job " + job.Job + " at the same time, and maxReservedPerJob allows fewer"}
	}
	return nil
}

// withdraw gives back what is not confirmed. What the store is not told now, it is later.
func (t *attempt) withdraw(ctx context.Context) error {
	s := t.s
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
