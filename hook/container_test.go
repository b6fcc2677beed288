// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/state"
)

// TestRecalledContainerIDs: libcni's cache has the attachments under different
// container IDs, and another runtime's and another allocation's beside them.
func TestRecalledContainerIDs(t *testing.T) {
	o := cacheOf(t, "a")
	write := func(o *operation.Operation, containerID, iface, config string) {
		t.Helper()
		a := primaryOf(containerID, iface)
		a.ConfList = []byte(config)
		if err := o.Config.Cache().Write(a, o.Record.Allocation.Netns); err != nil {
			t.Fatal(err)
		}
	}
	const ours, another = `{"allocnet": {"attachment": {"index": 1, "batch": {"kind": "setup"}}}}`, `{}`
	const incomplete = `{"allocnet": {"attachment": {"index": 1}}}`
	write(o, "a", "eth0", ours)
	write(o, "a.allocnet.net1", "net1", ours)
	write(o, "a", "eth1", another)
	write(o, "a", "eth2", incomplete)
	write(o, "a-b", "eth0", ours)
	write(o, "a-b.allocnet.net1", "net1", ours)
	write(o, "ab", "eth0", ours)
	if err := os.WriteFile(filepath.Join(o.Config.CacheDir, "results", "web-a-net7"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := o.LoadFromCache(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range o.Record.Attachments {
		got = append(got, a.ContainerID+" "+a.Interface+" "+a.Network)
	}
	if want := []string{"a eth0 web", "a.allocnet.net1 net1 web"}; !slices.Equal(got, want) {
		t.Errorf("recalled %q, want %q", got, want)
	}
	empty := operation.NewOperation(&Config{CacheDir: t.TempDir(), Logger: hclog.NewNullLogger()}, nil, state.Record{Allocation: state.Allocation{ID: "a"}})
	if err := empty.LoadFromCache(); err != nil || len(empty.Record.Attachments) != 0 {
		t.Errorf("without a cache: %v, %v", empty.Record.Attachments, err)
	}
}
