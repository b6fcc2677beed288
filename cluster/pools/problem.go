// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pools

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	"github.com/allocnet/allocnet/internal/texts"
)

// Kind is what keeps a pool from assigning addresses, or soon will.
type Kind string

// Kinds of problems.
const (
	// Refused is a lack of rights, as of an expired token.
	Refused Kind = "refused"
	// Unavailable is a store that does not answer. Blocks that the host holds are in use
	// nevertheless.
	Unavailable Kind = "unavailable"
	// Twin is another host with the identity of this one, which may have been refused.
	Twin Kind = "twin"
	// Mismatch is a configuration that differs from that of other hosts.
	Mismatch Kind = "mismatch"
	// Lost are blocks and reserved addresses of this host that another host owns.
	Lost Kind = "lost"
	// Fenced are blocks that were not verified for three quarters of the allowed time.
	Fenced Kind = "fenced"
	// Exhausted is a family without a free address.
	Exhausted Kind = "exhausted"
	// Failed is any other error.
	Failed Kind = "failed"
)

// Kinds are all kinds of problems.
var Kinds = []Kind{Refused, Unavailable, Twin, Mismatch, Lost, Fenced, Exhausted, Failed}

// Problem is a problem of a pool.
type Problem struct {
	Kind Kind
	// Text says what the problem is.
	Text string
}

// kindOf returns the kind of the error of a step; empty for an error that only says what the
// usage shows.
func kindOf(err error) Kind {
	for _, of := range []struct {
		cause error
		kind  Kind
	}{
		{ipam.ErrTwin, Twin},
		{ipam.ErrMismatch, Mismatch},
		{ErrDisagree, Mismatch},
		{ipam.ErrRefused, Refused},
		{ipam.ErrFenced, Fenced},
		{ipam.ErrExhausted, Exhausted},
		{ipam.ErrUnavailable, Unavailable},
		{context.DeadlineExceeded, Unavailable},
	} {
		if errors.Is(err, of.cause) {
			return of.kind
		}
	}
	return Failed
}

// found collects problems, one of each kind: steps fail for one reason.
type found []Problem

func (f *found) add(kind Kind, text string) {
	if !slices.ContainsFunc(*f, func(p Problem) bool { return p.Kind == kind }) {
		*f = append(*f, Problem{kind, text})
	}
}

func problems(u pool.Usage, lost []netip.Addr, errs []error, fence time.Duration, now time.Time) []Problem {
	var f found
	var lostBlocks []ipam.Block
	for _, b := range u.Blocks {
		if b.State == "lost" {
			lostBlocks = append(lostBlocks, b.Block)
		}
	}
	if len(lostBlocks)+len(lost) > 0 {
		f.add(Lost, "another host owns what this host has used: "+strings.TrimSpace(texts.Join(lostBlocks, " ")+" "+texts.Join(lost, " ")))
	}
	if u.Copied {
		f.add(Twin, "a copy of this machine has used the store within the last hour, and was refused: stop it, or remove instance, node.json and pools from the directory ipam of its state directory")
	}
	for _, family := range u.Families {
		if family.Free == 0 && family.Used+family.Cooling > 0 {
			f.add(Exhausted, fmt.Sprintf("no IPv%d address is free: %d are in use, and %d were freed less than the cooldown ago", family.Family, family.Used, family.Cooling))
		}
	}
	if age := now.Sub(u.Verified); !u.Fenced && len(u.Blocks) > 0 && !u.Verified.IsZero() && age >= fence*3/4 {
		f.add(Fenced, fmt.Sprintf("the blocks of this host were not verified for %s: in %s it assigns no new address", age.Round(time.Minute), max(0, fence-age).Round(time.Minute)))
	}
	for _, err := range append(errs, u.Closed) {
		if err != nil && kindOf(err) != Exhausted { // all blocks may be claimed while the own ones have room
			f.add(kindOf(err), err.Error())
		}
	}
	return f
}

// reporter tells which kinds of problems of a pool have begun and ended. It outlasts the keeper, which is replaced when the
// configuration changes, and is used by one at a time.
type reporter struct {
	tell func(p Problem, ended bool)
	// before are the kinds of the last look, and told those that have begun.
	before, told map[Kind]bool
}

func newReporter(tell func(p Problem, ended bool)) *reporter {
	return &reporter{tell, map[Kind]bool{}, map[Kind]bool{}}
}

// look compares the problems that there are with those of before. One that comes or goes for a moment, as when a server is slow
// once, is not told.
func (r *reporter) look(problems []Problem) {
	now := map[Kind]bool{}
	for _, p := range problems {
		if now[p.Kind] = true; r.before[p.Kind] && !r.told[p.Kind] {
			r.told[p.Kind] = true
			r.tell(p, false)
		}
	}
	for _, kind := range Kinds {
		if r.told[kind] && !now[kind] && !r.before[kind] {
			delete(r.told, kind)
			r.tell(Problem{Kind: kind}, true)
		}
	}
	r.before = now
}

// end tells that what has begun has ended, with the pool.
func (r *reporter) end() {
	r.look(nil)
	r.look(nil)
}
