// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"testing"

	"github.com/allocnet/allocnet/internal/exhaustive"
)

// What the model has to find.
const (
	noWait     = "the copy of a disk does not wait before it changes what is its original's"
	copysIsOwn = "what a copy has taken counts as this host's own"
	sameNonce  = "the nonce is not renewed, so that a copy with the memory is not found"
	nomadsWord = "Nomad's word alone is enough to reclaim"
	// staysPublished is that of an interface, too.
	staysPublished = "an address is given back while it is published"
)

// firstSchedules are those to begin with: with those before, it takes longer to find.
var firstSchedules = map[string]uint64{noWait: 690, copysIsOwn: 2340, sameNonce: 4200, nomadsWord: 170, staysPublished: 510}

// TestModelFindsBugs: the model finds each of them.
func TestModelFindsBugs(t *testing.T) {
	for flaw, from := range firstSchedules {
		exhaustive.Run(t, flaw, func(t *testing.T) {
			for seed := from; seed < from+schedules; seed++ {
				m := newModel(t, seed, &tally{})
				m.flaw = flaw
				if m.run(); m.fault != "" {
					t.Logf("schedule %d: %s", seed, m.fault)
					return
				}
			}
			t.Errorf("not found in %d schedules", schedules)
		})
	}
}
