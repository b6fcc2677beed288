// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"net/netip"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestHostLocal shows that the watcher of the other tests sees duplicates: each host gives
// out the same addresses with host-local.
func TestHostLocal(t *testing.T) {
	begin(t)
	w := watch(t, cluster.LocalSubnet)
	job := cluster.Job{ID: "hostlocal", Network: cluster.Local, Count: 6}
	must(t, lab.Submit(job))
	_, err := lab.AwaitRunning(job.ID, job.Count)
	must(t, err)
	sandbox.Eventually(t, "the watcher sees a duplicate", func() bool { return len(w.Duplicates()) > 0 })
	must(t, lab.Stop(job.ID))
}

func watch(t *testing.T, subnet string) *cluster.Watcher {
	t.Helper()
	w, err := lab.Watch(netip.MustParsePrefix(subnet))
	must(t, err)
	t.Cleanup(w.Close)
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
