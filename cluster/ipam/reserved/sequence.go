// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// maxSticky is how many addresses of a family are given out by key: as many entries are read
// by a host that takes its first.
const maxSticky = 4096

// takeByKey takes the address of a family that is kept for the job's key, else one that is
// reserved for the job, else one that is free, else the one that was not used for longest. A
// BusyError is of one that will be free soon.
func (t *attempt) takeByKey(ctx context.Context, family ipam.Family) (netip.Addr, error) {
	var soon *BusyError
	candidates := t.candidates(family)
	for i := 0; ; i++ {
		if address := t.kept(family); address.IsValid() {
			return address, (&claim{s: t.s, address: address, Request: t.request}).take(ctx)
		}
		if i == len(candidates) {
			break
		}
		c := candidates[i]
		err := (&claim{s: t.s, address: c.address, Request: t.request, evicts: c.evicts}).take(ctx)
		var busy *BusyError
		var refused *RefusedError
		switch {
		case errors.As(err, &busy):
			if soon == nil || busy.wait < soon.wait {
				soon = busy
			}
		case !errors.As(err, &refused):
			return c.address, err
		}
	}
	if soon != nil {
		return netip.Addr{}, soon
	}
	return netip.Addr{}, t.full(family)
}

// kept returns the address of a family that is held or kept for the key of the request. If
// there are several, it is one that the attachment itself holds, or the first.
func (t *attempt) kept(family ipam.Family) (found netip.Addr) {
	for _, address := range sorted(t.s.view.entries) {
		e := t.s.view.entries[address]
		if !e.isFor(t.request.Job, family) {
			continue
		}
		if e.isHeld() && e.content.Owner == t.request.Owner {
			return address
		}
		if !found.IsValid() {
			found = address
		}
	}
	return found
}

// isFor returns whether an entry of a family is for the key of a job.
func (e *entry) isFor(job ipam.Job, family ipam.Family) bool {
	return e.index != 0 && e.err == nil && ipam.FamilyOf(e.content.Address) == family && sameKey(e.content.Job, job)
}

func sameKey(one, other ipam.Job) bool {
	return sameJob(one, other) && one.Group == other.Group && one.Key == other.Key
}

type candidate struct {
	address netip.Addr
	evicts  bool
}

// candidates returns what a new key may get, best first.
func (t *attempt) candidates(family ipam.Family) []candidate {
	var own, free, kept []candidate
	view, config, job := t.s.view, t.s.a.o.Config, t.request.Job
	for _, address := range sequence(config, job, family) {
		switch e := view.at(address); {
		case e.index == 0:
			free = append(free, candidate{address: address})
		case !e.isFree():
		case e.content.Reserved:
			if reservedFor(e.content.Job, job) {
				own = append(own, candidate{address: address})
			}
		case t.s.now.age(e.content.Freed) < config.Cooldown:
		case isKept(e.content):
			kept = append(kept, candidate{address, true})
		default:
			free = append(free, candidate{address: address})
		}
	}
	slices.SortStableFunc(kept, func(x, y candidate) int {
		return view.at(x.address).content.Freed.Compare(view.at(y.address).content.Freed)
	})
	return slices.Concat(own, free, kept)
}

// reservedFor returns whether what an operator reserved for a job, without a key, is for this.
func reservedFor(reserved, job ipam.Job) bool {
	return reserved.Key == "" && sameJob(reserved, job) && (reserved.Group == "" || reserved.Group == job.Group)
}

// sequence returns the reserved addresses of a family, beginning with one that the key
// determines: hosts that take addresses for several keys at a time seldom want the same.
func sequence(config *ipam.Config, job ipam.Job, family ipam.Family) []netip.Addr {
	var all []netip.Addr
	for address := range config.ReservedOf(family) {
		if config.IsReserved(address) && len(all) < maxSticky {
			all = append(all, address)
		}
	}
	if len(all) == 0 {
		return nil
	}
	start := hash(job) % uint64(len(all))
	return slices.Concat(all[start:], all[:start])
}

// hash is of what an address is kept for.
func hash(job ipam.Job) uint64 {
	data, _ := json.Marshal([]string{job.Namespace, job.Job, job.Group, job.Key}) // strings cannot fail
	sum := sha256.Sum256(data)
	return binary.BigEndian.Uint64(sum[:])
}
