// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package peers_test

import (
	"errors"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// TestRefusedEndpoint: what the others would refuse is not recorded.
func TestRefusedEndpoint(t *testing.T) {
	c := config(t)
	c.StateDir = t.TempDir()
	p := pool.New(pool.Options{Config: c, Open: open(&storetest.Fake{}, host("a"))})
	if err := p.SetEndpoint(t.Context(), endpoint("127.0.0.1")); !errors.Is(err, ipam.ErrInvalid) {
		t.Errorf("error %v, want %v", err, ipam.ErrInvalid)
	}
}
