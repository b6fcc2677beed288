// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"errors"
	"slices"
	"testing"
)

// TestRemovedOf counts by allocation.
func TestRemovedOf(t *testing.T) {
	object := func(allocation, network string) Object {
		return Object{Owner: Owner{Allocation: allocation, Network: network}}
	}
	stuck := errors.New("stuck")
	got := removedOf(
		[]Object{object("a", "web"), object("b", "web"), object("a", ""), object("a", "storage"), object("a", "web")},
		[]Failure{{object("a", "web"), stuck}, {object("b", "web"), stuck}})
	if len(got) != 2 || got[0].Allocation != "a" || got[0].Objects != 3 || !slices.Equal(got[0].Networks, []string{"web", "storage"}) ||
		!errors.Is(got[0].Err, stuck) || got[1].Allocation != "b" || got[1].Objects != 0 || !errors.Is(got[1].Err, stuck) {
		t.Errorf("%+v %+v", got[0], got[1:])
	}
}
