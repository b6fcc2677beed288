// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package local

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// TestHugeBlock: a damaged record with a block that no pool has takes no memory.
func TestHugeBlock(t *testing.T) {
	h := newHost(t, small)
	for _, b := range []ipam.Block{netip.MustParsePrefix("0.0.0.0/4"), netip.MustParsePrefix("fd00::/8")} {
		_, _, errUse := h.LastUse(b)
		_, errCount := h.Count(t.Context(), []ipam.Block{b})
		if !errors.Is(errUse, ipam.ErrInvalid) || !errors.Is(errCount, ipam.ErrInvalid) {
			t.Errorf("%s: %v, %v", b, errUse, errCount)
		}
	}
}
