// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package connect

import (
	"net/http"
	"sync/atomic"
	"testing"
)

// TestSilentAgent: an agent that does not answer is not asked again at once for a node that is known.
func TestSilentAgent(t *testing.T) {
	a, stateDir := newAgent(t), t.TempDir()
	dir := configDir(t, "ipam {}\nnomad {\n address = \""+a.URL+"\"\n}")
	mustOpen(t, dir, stateDir)
	age(t, stateDir, fresh)
	var asked atomic.Int32
	a.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		<-r.Context().Done()
	})
	c := New(dir, stateDir)
	for range 3 {
		if _, host, err := c.Open(); err != nil || host.NodeID != nodeA {
			t.Errorf("%+v, %v", host, err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("it was asked %d times", asked.Load())
	}
}
