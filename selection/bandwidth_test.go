// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package selection

import "testing"

// TestBurstOfARate: a rate alone has a burst that is within the bounds of one that is chosen.
func TestBurstOfARate(t *testing.T) {
	for rate := uint64(minRate); rate <= maxRate; rate += rate/3 + 1 {
		e := Element{Name: "a", Bandwidth: &Bandwidth{IngressRate: rate}}
		if err := validateBandwidth(e, ""); err != nil {
			t.Fatalf("%d alone: %v", rate, err)
		}
		full := withBursts(*e.Bandwidth)
		if full.EgressRate != 0 || full.EgressBurst != 0 || full.IngressBurst == 0 {
			t.Errorf("%d: %+v", rate, full)
		}
		e.Bandwidth = &full
		if err := validateBandwidth(e, ""); err != nil {
			t.Errorf("%d: %v", rate, err)
		}
	}
	if got := withBursts(Bandwidth{EgressRate: 8000000, EgressBurst: 80000}); got.EgressBurst != 80000 {
		t.Errorf("a chosen burst became %d", got.EgressBurst)
	}
}
