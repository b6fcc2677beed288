// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/hook"
)

// TestOpenTable: a host without networks that span hosts gets no directory for them, and what an
// earlier agent has left is found.
func TestOpenTable(t *testing.T) {
	d := newTestDaemon(t, config.Config{})
	dir := d.config.StateDir
	if table, err := d.openTable(false); table != nil || err != nil {
		t.Errorf("without need: %v, %v", table, err)
	}
	if entries, err := os.ReadDir(dir); len(entries) > 0 || err != nil {
		t.Errorf("without need there are %v, %v", entries, err)
	}
	if table, err := d.openTable(true); table == nil || err != nil {
		t.Errorf("with need: %v, %v", table, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "routes")); err != nil {
		t.Error(err)
	}
	if table, err := d.openTable(false); table == nil || err != nil {
		t.Errorf("with something left: %v, %v", table, err)
	}
}

// TestSpan: kept pools reach what connects them, with the settings of the block, and the hook
// "noop" has none.
func TestSpan(t *testing.T) {
	d, _ := pooledDaemon(t)
	d.span = d.newSpan()
	runPools(t, d)
	await(t, "a pool is kept", func() bool {
		kept, complete := d.keptPools()
		return complete && len(kept) == 1 && kept[0].Config.Pool == "vlan100"
	})
	address, network := netip.MustParseAddr("10.0.0.5"), netip.MustParsePrefix("10.0.0.0/24")
	if s := spanSettings(config.Cluster{Address: address, NodeNetworks: []netip.Prefix{network}, Filtering: config.Accept}); s.Address != address || len(s.NodeNetworks) != 1 || !s.Accept {
		t.Errorf("settings %+v", s)
	}
	if s := spanSettings(config.Cluster{Filtering: config.Report}); s.Accept {
		t.Errorf("settings %+v", s)
	}
	noop := newTestDaemon(t, config.Config{Hook: hook.NoOp})
	if noop.newSpan() != nil {
		t.Error("networks that are managed elsewhere")
	}
}
