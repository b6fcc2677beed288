// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/block"
	"github.com/allocnet/allocnet/cluster/ipam/local"
	"github.com/allocnet/allocnet/internal/errdefs"
)

const (
	// claimTimeout is how long an attachment waits for a block, so that it fails within 5 s.
	claimTimeout = 4500 * time.Millisecond
	// claimAttempts are made if other attachments take all addresses of a new block.
	claimAttempts = 8
	// returnTimeout is how long a failed call waits for other processes to give back what it took.
	// GC frees the rest.
	returnTimeout = 2 * time.Second
	// probeAttempts are made if other hosts use the addresses.
	probeAttempts = 3
)

// Add gives an attachment an address of each family of the pool, those that it requests among
// them: all or none. An attachment that has addresses gets the same again, and keeps them if
// the call fails.
func (p *Pool) Add(ctx context.Context, r ipam.Request) ([]ipam.Assigned, error) {
	if err := validate(p.o.Config, r); err != nil {
		return nil, err
	}
	if _, err := p.agreed(); err != nil {
		return nil, err
	}
	fixed, before, err := p.addReserved(ctx, r)
	if err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(p.o.Config.Families(), func(f ipam.Family) bool { return r.Published || hasFamily(fixed, f) })
	var found []netip.Addr
	if len(others) > 0 {
		found, err = (&adding{p, r.Owner, others}).add(ctx)
	}
	if len(fixed) > 0 && err != nil {
		err = errors.Join(err, p.reserved.Restore(ctx, r.Owner, before))
	} else if len(fixed) > 0 {
		err = p.reserved.FreeOthers(ctx, r.Owner, fixed)
	}
	if err != nil {
		return nil, err
	}
	return assign(p.o.Config, append(fixed, found...))
}

func hasFamily(addresses []netip.Addr, f ipam.Family) bool {
	return slices.ContainsFunc(addresses, func(a netip.Addr) bool { return ipam.FamilyOf(a) == f })
}

// validate requires an attachment, a key that can be stored as it is, and addresses of the pool
// of different families.
func validate(c *ipam.Config, r ipam.Request) error {
	if r.Owner.ContainerID == "" || r.Owner.Interface == "" {
		return fmt.Errorf("%w: attachment %q of container %q: want both", ipam.ErrInvalid, r.Owner.Interface, r.Owner.ContainerID)
	}
	if err := ipam.ValidateKey(r.Job.Key); err != nil {
		return err
	}
	for i, address := range r.Addresses {
		if !c.IsReserved(address) {
			return fmt.Errorf("%w: requested address %s is in no reserved range of the pool %s (%v), or excluded, or a gateway", ipam.ErrInvalid, address, c.Pool, c.Reserved)
		}
		if hasFamily(r.Addresses[:i], ipam.FamilyOf(address)) {
			return fmt.Errorf("%w: requested addresses are %v: want one of each family", ipam.ErrInvalid, r.Addresses)
		}
	}
	return nil
}

// assign returns the addresses as an attachment's, in the order of the families.
func assign(c *ipam.Config, addresses []netip.Addr) ([]ipam.Assigned, error) {
	var all []ipam.Assigned
	for _, f := range c.Families() {
		for _, address := range addresses {
			if ipam.FamilyOf(address) != f {
				continue
			}
			a, err := c.Assign(address)
			if err != nil {
				return nil, err
			}
			all = append(all, a)
		}
	}
	return all, nil
}

// addReserved takes requested addresses, or sticky ones: of the families that have reserved
// addresses. before are those that the attachment had.
func (p *Pool) addReserved(ctx context.Context, r ipam.Request) (found, before []netip.Addr, err error) {
	var families []ipam.Family
	if p.o.Config.Sticky && r.Job.Key != "" && len(r.Addresses) == 0 {
		families = slices.DeleteFunc(p.o.Config.Families(), func(f ipam.Family) bool {
			return !slices.ContainsFunc(p.o.Config.Reserved, func(p netip.Prefix) bool { return ipam.FamilyOf(p.Addr()) == f })
		})
	}
	if len(families)+len(r.Addresses) == 0 {
		return nil, nil, nil
	}
	if before, err = p.reserved.Held(ctx, r.Owner); err != nil {
		return nil, nil, err
	}
	if found, err = p.reserved.Take(ctx, r, families); err != nil {
		return nil, nil, err
	}
	made := slices.DeleteFunc(slices.Clone(found), func(a netip.Addr) bool { return slices.Contains(before, a) })
	taken, err := p.probe(ctx, made)
	if err == nil && len(taken) > 0 {
		err = fmt.Errorf("%w: another host uses the reserved address %s", ipam.ErrExhausted, taken[0])
	}
	if err != nil {
		return nil, nil, errors.Join(err, p.reserved.Restore(ctx, r.Owner, before))
	}
	return found, before, nil
}

// adding takes addresses from blocks for an attachment.
type adding struct {
	p        *Pool
	owner    ipam.Owner
	families []ipam.Family
}

// add takes addresses that no other host is seen to use.
func (a *adding) add(ctx context.Context) ([]netip.Addr, error) {
	p := a.p
	var used, all []netip.Addr // all were made by this call
	giveBack := func(err error) error {
		if len(all) == 0 {
			return err
		}
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
		defer cancel()
		return errors.Join(err, p.local.Return(limited, a.owner, all))
	}
	for range probeAttempts {
		existing, made, err := a.take(ctx)
		if err != nil {
			return nil, giveBack(err)
		}
		all = append(all, made...)
		if used, err = p.probe(ctx, made); err != nil {
			return nil, giveBack(err)
		}
		if len(used) == 0 {
			return append(existing, made...), nil
		}
		for _, address := range used {
			p.o.Logger.Error("another host uses an address of a block of this host: it is not given out for an hour", "address", address)
			if err := p.local.Quarantine(ctx, a.owner, address); err != nil {
				return nil, giveBack(err)
			}
		}
	}
	return nil, giveBack(fmt.Errorf("%w: other hosts use %d addresses of this host's blocks, the last is %s", ipam.ErrExhausted, probeAttempts, used[0]))
}

// probe returns those of the addresses that other hosts use, and counts them.
func (p *Pool) probe(ctx context.Context, addresses []netip.Addr) (used []netip.Addr, err error) {
	if p.o.Probe == nil {
		return nil, nil
	}
	taken, errs := make([]bool, len(addresses)), make([]error, len(addresses))
	var group sync.WaitGroup // each takes a second
	for i, address := range addresses {
		group.Go(func() { taken[i], errs[i] = p.o.Probe(ctx, address) })
	}
	group.Wait()
	for i, address := range addresses {
		if taken[i] {
			used = append(used, address)
		}
	}
	if len(used) > 0 {
		if err := p.conflicts.add(ctx, len(used)); err != nil {
			p.o.Logger.Warn("count addresses in use elsewhere", "addresses", used, "error", err)
		}
	}
	return used, errors.Join(errs...)
}

// take takes addresses from the blocks that this host has, or else from new ones.
func (a *adding) take(ctx context.Context) (existing, made []netip.Addr, err error) {
	limited, stop := context.WithTimeoutCause(ctx, claimTimeout, errSlow)
	defer stop()
	if err := a.p.blocks.Refresh(limited); err != nil {
		a.p.o.Logger.Warn("verify the blocks of this host: it is repeated later", "error", err)
	}
	existing, made, _, err = a.takeHeld(ctx)
	if !errors.Is(err, ipam.ErrExhausted) && !errors.Is(err, ipam.ErrFenced) {
		return existing, made, err
	}
	return a.takeNew(limited)
}

var errSlow = fmt.Errorf("%w: no answer in %s", ipam.ErrUnavailable, claimTimeout)

// takeHeld takes addresses from the blocks that this host has, and returns which those are.
func (a *adding) takeHeld(ctx context.Context) (existing, made []netip.Addr, held *block.Overview, err error) {
	existing, made, err = a.p.local.Take(ctx, a.owner, a.families, func() ([]ipam.Block, error) {
		if held, err = a.p.blocks.Overview(); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(held.Blocks, func(r block.Record) bool { return r.State == block.Held }) {
			return held.Open(), held.Closed
		}
		return nil, nil
	})
	return existing, made, held, err
}

// takeNew claims blocks until they have addresses for the attachment. Those that wait for
// another process to claim one may find that it is enough for them.
func (a *adding) takeNew(ctx context.Context) (existing, made []netip.Addr, err error) {
	unlock, err := a.p.lock(ctx, "claim.lock")
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ipam.ErrExhausted, err)
	}
	defer unlock()
	for range claimAttempts {
		var full *local.FullError
		var held *block.Overview
		existing, made, held, err = a.takeHeld(ctx)
		switch {
		case errors.As(err, &full):
			err = a.claim(ctx, full.Families, held.Open())
		case errors.Is(err, ipam.ErrFenced):
			err = a.p.blocks.Verify(ctx)
		default:
			return existing, made, err
		}
		if err = withCause(ctx, err); err != nil && full != nil {
			err = unclaimed(err, full, held.Waiting)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, fmt.Errorf("%w: others took the addresses of %d new blocks", ipam.ErrExhausted, claimAttempts)
}

// withCause says, if the store did not answer in time, so.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// unclaimed says why a block was asked for that was not to be had, and what other ones wait for.
// The kind of the error is that of the claim's: without a free address one is refused for good, too.
func unclaimed(err, full error, waiting string) error {
	if waiting != "" {
		full = fmt.Errorf("%w; %s", full, waiting)
	}
	return errdefs.As(errdefs.Of(err), fmt.Errorf("%w; a new block: %w", full, err))
}

func (a *adding) claim(ctx context.Context, families []ipam.Family, open []ipam.Block) error {
	for _, f := range families {
		claimed, err := a.p.blocks.Claim(ctx, f, open)
		if err != nil {
			return err
		}
		a.p.o.Logger.Info("claimed a block", "block", claimed)
	}
	return nil
}
