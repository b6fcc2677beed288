// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"net/netip"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestLongHostLocal shows that the watcher of the other tests sees duplicates: each host gives
// out the same addresses with host-local.
func TestLongHostLocal(t *testing.T) {
	s := begin(t)
	w := s.watch(cluster.LocalSubnet)
	job := cluster.Job{ID: "hostlocal", Network: cluster.Local, Count: 6}
	must(t, lab.Jobs.Submit(job))
	_, err := lab.Jobs.AwaitRunning(job.ID, job.Count)
	must(t, err)
	sandbox.Eventually(t, "the watcher sees a duplicate", func() bool { return len(w.Duplicates()) > 0 })
	must(t, lab.Jobs.Stop(job.ID))
}

func (s *scene) watch(subnet string) *cluster.Watcher {
	s.Helper()
	w, err := cluster.Watch(netip.MustParsePrefix(subnet))
	must(s, err)
	s.Cleanup(w.Close)
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
