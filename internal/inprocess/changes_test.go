// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"errors"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
)

// TestLeasesAreReleasedLast: not while a link may still have the address, and all of them. What
// fails is an error as a plugin gives it.
func TestLeasesAreReleasedLast(t *testing.T) {
	released := 0
	release := func(context.Context) error { released++; return errors.New("scripted") }
	leases := []func(context.Context) error{release, release}
	errs := Commit(t.Context(), nil, []*Changes{
		{leases: leases},
		{leases: leases, links: []link{{netns: "/dev/null", name: "eth0"}}},
	})
	if released != 2 {
		t.Errorf("%d leases are released, want those of the first network alone", released)
	}
	for i, err := range errs {
		var own *types.Error
		if !errors.As(err, &own) || own.Code != types.ErrInternal {
			t.Errorf("error %d: %v, want one with code %d", i, err, types.ErrInternal)
		}
	}
}
