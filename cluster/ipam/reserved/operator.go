// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Reserve keeps an address for a job before any allocation has it: for one of its groups or
// keys if they are set. RefusedError: another has it or it is kept for another.
func (a *Addresses) Reserve(ctx context.Context, address netip.Addr, job ipam.Job) error {
	if !a.o.Config.IsReserved(address) {
		return &RefusedError{address, "it is in none of the pool's reserved ranges"}
	}
	return a.change(ctx, address, func(s *session, e *entry) (*ipam.AddressContent, error) {
		if err := a.o.Guard.Agree(ctx, s.store); err != nil {
			return nil, err
		}
		content := e.content
		switch {
		case e.err != nil:
			return nil, e.err
		case e.index == 0:
			content = ipam.AddressContent{Pool: a.o.Config.Pool, Address: address, State: ipam.Free, ClaimID: newClaim()}
		case !sameJob(content.Job, job) && (e.isHeld() || isKept(content)):
			return nil, &RefusedError{address, fmt.Sprintf("job %q of namespace %q has it or it is kept for that: unreserve it first", content.Job.Job, content.Job.Namespace)}
		}
		if content.Reserved = true; e.isHeld() {
			job.Allocation = content.Job.Allocation
		}
		content.Job = job
		return &content, nil
	})
}

// Unreserve ends that an address is kept, for a job or for a sticky key. An allocation that
// holds it has it until it ends.
func (a *Addresses) Unreserve(ctx context.Context, address netip.Addr) error {
	return a.change(ctx, address, func(s *session, e *entry) (*ipam.AddressContent, error) {
		if e.index == 0 {
			return nil, nil // the entry is not there, as it should be
		}
		content := e.content
		content.Reserved, content.Job.Key = false, ""
		switch {
		case e.isHeld():
			return &content, nil
		case e.err == nil && s.now.age(content.Freed) < quiet: // others have to wait, so they have to see it
			content.Job = ipam.Job{}
			return &content, nil
		}
		return nil, s.view.remove(ctx, address, e)
	})
}

// change changes an entry to what the function returns, or does not for nil. It is called
// again if another host changes the entry at the same time.
func (a *Addresses) change(ctx context.Context, address netip.Addr, to func(*session, *entry) (*ipam.AddressContent, error)) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	for range attempts {
		e, err := s.view.reread(ctx, address)
		if err != nil {
			return err
		}
		content, err := to(s, e)
		if err == nil && content != nil {
			_, err = s.view.save(ctx, *content, e.index)
		}
		if !errors.Is(err, errOvertaken) {
			return err
		}
	}
	return fmt.Errorf("entry of reserved address %s: %w", address, errOvertaken)
}
