// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package local

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// TestOtherDataDir: leases in another directory than the pool's would be assigned again, so a
// configuration with another one assigns nothing, and says so. It takes back what an attachment
// has. Without the link to the directory it may be another one.
func TestOtherDataDir(t *testing.T) {
	h := newHost(t, small)
	h.requireTake("a", "10.0.0.2")
	original := h.config.DataDir
	other := *h.config
	other.DataDir += "2"
	h.config = &other
	_, errCount := h.Count(t.Context(), h.blocks)
	_, errOf := h.Of(t.Context(), owner("a"))
	_, _, errTake := h.Take(t.Context(), owner("b"), h.config.Families(), h.open)
	errAdd := h.Add(t.Context(), netip.MustParseAddr("10.0.0.4"), owner("b"))
	for i, err := range []error{errCount, errOf, errTake, errAdd} {
		if !errors.Is(err, ipam.ErrInvalid) || strings.Count(fmt.Sprint(err), original) != 2 {
			t.Errorf("call %d: %v, want an error with both directories", i, err)
		}
	}
	if n, _, err := h.LastUse(h.blocks[0]); n != 1 || err != nil {
		t.Errorf("%d leases, %v, want the one that there is", n, err)
	}
	h.release("b")
	h.release("a")
	if files, err := os.ReadDir(original + "/p"); err != nil || len(files) != 1 || files[0].Name() != "lock" {
		t.Errorf("the lease is not taken back: %v, %v", files, err)
	}
	if err := os.Remove(h.link()); err != nil {
		t.Fatal(err)
	}
	h.requireTake("b", "10.0.0.3")
}
