// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"errors"
	"slices"
	"time"
)

// Scope restricts what is examined. The zero value is everything.
type Scope struct {
	// Allocation is the ID of the only one to examine, on any network, also an unknown one.
	// The caller knows that it is dead; liveness evidence still keeps its objects. Empty: all.
	Allocation string
	// Forget examines it as one that is not on record if its record is damaged and tells neither of
	// a namespace nor of an attachment.
	Forget bool
	// Network is the name of the only one to examine. Empty: all.
	Network string
}

func (s Scope) has(o Object) bool {
	return (s.Allocation == "" || o.Owner.Allocation == s.Allocation) &&
		(s.Network == "" || slices.Contains(o.Networks(), s.Network))
}

// Report is the outcome of a collection.
type Report struct {
	// Decisions are those on all objects in the scope.
	Decisions []Decision `json:"objects"`
	// Problems are places that could not be examined.
	Problems []Problem `json:"problems,omitempty"`
	// Unknown joins the errors of what could not be listed or looked into. Nil: all was.
	Unknown error `json:"-"`
	// Removed counts the objects that were removed.
	Removed int `json:"removed"`
	// Alive says why the allocation of the scope is not dead; empty when it is, or
	// when the scope names none.
	Alive string `json:"alive,omitempty"`
	// Failures are leaked objects that are still there.
	Failures []Failure `json:"-"`

	// spared are the allocations whose objects were not to be removed after all: by then they
	// were on record or alive, or had been torn down.
	spared []string
}

// Leaked returns the decisions on leaked objects.
func (r *Report) Leaked() []Decision {
	return slices.DeleteFunc(slices.Clone(r.Decisions), func(v Decision) bool { return !v.Leaked })
}

// Orphaned returns the decisions on objects of dead allocations that are not removed unasked.
func (r *Report) Orphaned() []Decision {
	return slices.DeleteFunc(slices.Clone(r.Decisions), func(v Decision) bool { return !v.Orphaned })
}

// Gone returns the decisions on leaked objects that were removed.
func (r *Report) Gone() []Decision { return r.GoneBy(r) }

// GoneBy returns the decisions on leaked objects that a later collection has removed, or has
// not found.
func (r *Report) GoneBy(later *Report) []Decision {
	left := map[string]bool{}
	for _, f := range later.Failures {
		left[f.Where] = true
	}
	for _, v := range later.Leaked() {
		left[v.Where] = left[v.Where] || slices.Contains(later.spared, v.Owner.Allocation)
	}
	return slices.DeleteFunc(r.Leaked(), func(v Decision) bool { return left[v.Where] })
}

// Removed is the removal of the leaks of one allocation.
type Removed struct {
	Allocation string
	// Networks are those of the objects, as far as they are known.
	Networks []string
	// Objects is the number of those that are gone.
	Objects int
	// Took is the time of the batch, which has other allocations as well.
	Took time.Duration
	// Err joins the errors of the objects that are still there.
	Err error
}

// removedOf returns what was removed of each allocation, in the order of the objects.
func removedOf(objects []Object, failures []Failure) []*Removed {
	var all []*Removed
	byID := map[string]*Removed{}
	for _, o := range objects {
		r := byID[o.Owner.Allocation]
		if r == nil {
			r = &Removed{Allocation: o.Owner.Allocation}
			byID[r.Allocation] = r
			all = append(all, r)
		}
		if r.Objects++; o.Owner.Network != "" && !slices.Contains(r.Networks, o.Owner.Network) {
			r.Networks = append(r.Networks, o.Owner.Network)
		}
	}
	for _, f := range failures {
		r := byID[f.Owner.Allocation]
		r.Objects--
		r.Err = errors.Join(r.Err, f)
	}
	return all
}
