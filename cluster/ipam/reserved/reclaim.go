// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// adoptGrace is how long apart an address is seen unused twice before it is adopted.
const adoptGrace = 5 * time.Minute

// Reclaim frees the addresses of nodes that are gone for longer than Options.Grace, seen so
// twice. Their keys stay.
func (a *Addresses) Reclaim(ctx context.Context) ([]netip.Addr, error) {
	return a.freeIf(ctx, func(s *session, address netip.Addr, e *entry) (bool, error) {
		return s.isGone(ctx, e.content.Host)
	})
}

// ReleaseNode frees the addresses that a node holds, by an operator's word that it is gone.
func (a *Addresses) ReleaseNode(ctx context.Context, nodeID string) ([]netip.Addr, error) {
	return a.freeIf(ctx, func(_ *session, _ netip.Addr, e *entry) (bool, error) {
		return e.content.Host.NodeID == nodeID, nil
	})
}

// Adopt frees the addresses that an earlier state directory of this node held, if inUse says
// twice, a few minutes apart, that no namespace of the host has them, and what held them did not
// answer in between: it may be another machine with the node ID of this one.
func (a *Addresses) Adopt(ctx context.Context, inUse func(netip.Addr) (bool, error)) ([]netip.Addr, error) {
	answers := map[string]bool{} // of instances, each of which is asked once
	return a.freeIf(ctx, func(s *session, address netip.Addr, e *entry) (bool, error) {
		if !s.isOwnNode(e) {
			return false, nil
		}
		if _, leased, err := a.o.Leases.Owner(ctx, address); leased || err != nil {
			return false, err
		}
		used, err := inUse(address)
		lives, asked := answers[e.content.Host.Instance]
		if err == nil && !used && !asked {
			lives, err = a.o.Guard.Answers(ctx, s.store, s.host, e.content.Host.Instance)
			answers[e.content.Host.Instance] = lives || err != nil
		}
		return s.view.unusedTwice(address, used || lives || err != nil), err
	})
}

// unusedTwice returns whether an address was seen unused twice, some time apart.
func (v *view) unusedTwice(address netip.Addr, used bool) bool {
	unused := v.memory.Unused
	since, seen := unused[address]
	switch {
	case used:
		delete(unused, address)
	case !seen || since.After(v.now()):
		unused[address] = v.now()
	case v.now.age(since) >= adoptGrace:
		delete(unused, address)
		return true
	}
	return false
}

// freeIf frees entries that other hosts hold.
func (a *Addresses) freeIf(ctx context.Context, isFreed func(*session, netip.Addr, *entry) (bool, error)) ([]netip.Addr, error) {
	s, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.readTrusted(ctx); err != nil {
		return nil, err
	}
	var done []netip.Addr
	var errs []error
	for _, address := range sorted(s.view.entries) {
		e := s.view.entries[address]
		if !e.isHeld() || e.content.Host.Instance == s.host.Instance {
			continue
		}
		is, err := isFreed(s, address, e)
		if is {
			if _, err = s.view.save(ctx, s.abandoned(e), e.index); err == nil {
				done = append(done, address)
			}
		}
		errs = append(errs, ignoreOvertaken(err))
	}
	return done, errors.Join(errs...)
}

// isGone returns whether the node of a host is gone for longer than the grace, seen twice, and the
// host silent.
func (s *session) isGone(ctx context.Context, h ipam.Host) (bool, error) {
	nodeID := h.NodeID
	if s.a.o.Holder == nil || nodeID == "" {
		return false, nil
	}
	silent, err := s.isSilent(ctx, h.Instance)
	if err != nil || !silent {
		return false, err
	}
	gone, err := s.a.o.Holder.Gone(ctx, nodeID)
	if err != nil {
		return false, err
	}
	nodes := s.view.memory.Gone
	since, seen := nodes[nodeID]
	switch {
	case !gone:
		delete(nodes, nodeID)
	case !seen || since.After(s.now()):
		nodes[nodeID] = s.now()
	default:
		return s.now.age(since) >= s.a.o.Grace, nil
	}
	return false, nil
}

// isSilent asks the guard for a host, once in a session: each answer costs a request and a file.
func (s *session) isSilent(ctx context.Context, instance string) (bool, error) {
	if silent, ok := s.silent[instance]; ok {
		return silent, nil
	}
	silent, err := s.a.o.Guard.Silent(ctx, s.store, s.host, instance)
	if err == nil {
		s.silent[instance] = silent
	}
	return silent, err
}
