// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import "testing"

// TestNoServerRuns: the error says why no server has answered.
func TestNoServerRuns(t *testing.T) {
	c := &Cluster{Servers: []*Machine{machine("s1", 1)}}
	const want = "no server has answered: s1 does not run"
	if err := c.API("GET", "status/leader", nil, nil); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
