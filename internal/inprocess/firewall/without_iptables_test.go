// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package firewall

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vishvananda/netns"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootDelWithoutIPTables: where firewalld has the addresses and iptables is not installed, there are no rules of iptables
// to remove.
func TestRootDelWithoutIPTables(t *testing.T) {
	roottest.Require(t)
	runtime.LockOSThread()
	if _, err := netns.New(); err != nil {
		t.Fatal(err)
	}
	bus := busSocket
	t.Cleanup(func() { busSocket = bus })
	busSocket = filepath.Join(t.TempDir(), "missing")
	t.Setenv("PATH", t.TempDir())
	c := &plugin.Call{Ctx: t.Context(), Version: "1.0.0", Changes: &plugin.Changes{}, Config: []byte(`{"cniVersion": "1.0.0", "name": "n", "prevResult": {"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.5/24"}]}}`)}
	if err := del(c); err != nil {
		t.Fatal(err)
	}
	for _, err := range plugin.Commit(t.Context(), nil, []*plugin.Changes{c.Changes}) {
		if err != nil {
			t.Errorf("DEL: %v", err)
		}
	}
}
