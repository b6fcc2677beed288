// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"strings"
	"testing"
)

// TestUnprivileged: what is not examined without root is reported, and no pool is shown as
// unused.
func TestUnprivileged(t *testing.T) {
	d := Doctor{ConfDirs: []string{t.TempDir()}, Unprivileged: true}
	r := d.Examine(t.Context())
	seen := false
	for _, f := range r.Findings {
		seen = seen || f.Severity == Warning && strings.Contains(f.Problem, "not examined without root")
	}
	if !seen || len(r.Pools) > 0 {
		t.Errorf("findings %+v, pools %v", r.Findings, r.Pools)
	}
}
