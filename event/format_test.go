// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package event

import (
	"fmt"
	"os"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// TestVersions: events of each version are read, and what is written now is that of the golden file.
func TestVersions(t *testing.T) {
	storetest.Golden(t, fmt.Sprintf("testdata/event-%d.json", formatVersion), &Event{})
	for version := 1; version <= formatVersion; version++ {
		golden, err := os.ReadFile(fmt.Sprintf("testdata/event-%d.json", version))
		if e, ok := parse(golden); err != nil || !ok || e.Index != 7 || e.Attempts != 2 || len(e.RemovedBy) != 1 {
			t.Errorf("version %d: %+v, %v", version, e, err)
		}
	}
}
