// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"errors"
	"slices"
	"time"
)

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
