// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/span"
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

// filterHost puts programs of iptables first in PATH that show rules, and note the changes. It returns what sets the
// rules, and what returns the changes since it was called.
func filterHost(t *testing.T) (rules func(string), took func() string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("iptables-nft", "")
	write("iptables-nft-restore", "#!/bin/sh\n/bin/cat >>"+dir+"/changes\n")
	rules = func(text string) {
		write("iptables-nft-save", "#!/bin/sh\n/bin/cat <<'X'\n*filter\n:FORWARD DROP [0:0]\n"+text+"COMMIT\nX\n")
	}
	return rules, func() string {
		data, _ := os.ReadFile(filepath.Join(dir, "changes"))
		_ = os.Remove(filepath.Join(dir, "changes"))
		return string(data)
	}
}

// TestFilter: rules are made with accept alone. They are removed without, also if their record is lost, and not forgotten where
// they cannot be listed, which is reported.
func TestFilter(t *testing.T) {
	const chain = ":ALLOCNET-FORWARD - [0:0]\n"
	rules, took := filterHost(t)
	d := newTestDaemon(t, config.Config{})
	c, err := ipam.Parse([]byte(`{"pool": "web", "mode": "vxlan", "ranges": [{"subnet": "10.91.0.0/16"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.openTable(true); err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(span.Dir(d.config.StateDir), "filter")
	pools := []*ipam.Config{c}
	for _, step := range []struct {
		name, rules string
		filtering   span.Filtering
		executed    string
		obstacles   int
		recorded    bool
	}{
		{"report", "", span.Filtering{Pools: pools}, "", 1, false},
		{"no pool", chain, span.Filtering{Accept: true}, "", 0, false},
		{"lost record", chain, span.Filtering{Pools: pools}, "*filter\n-X ALLOCNET-FORWARD\nCOMMIT\n", 1, false},
		{"spared", "", span.Filtering{Accept: true, Spared: []string{"web"}}, "", 1, false},
		{"accept", "", span.Filtering{Accept: true, Pools: pools}, "*filter\n" + chain + "-I FORWARD -j ALLOCNET-FORWARD\n" +
			"-A ALLOCNET-FORWARD -s 10.91.0.0/16 -d 10.91.0.0/16 -i veth+ -m comment --comment \"allocnet pool web\" -j ACCEPT\nCOMMIT\n", 1, true},
		{"cannot be listed", "# Table `filter' is incompatible, use 'nft' tool.\n", span.Filtering{}, "", 0, true},
		{"report again", chain, span.Filtering{Pools: pools}, "*filter\n-X ALLOCNET-FORWARD\nCOMMIT\n", 1, false},
	} {
		rules(step.rules)
		found, err := d.filter(t.Context(), step.filtering)
		if (err != nil) != (step.name == "cannot be listed") || len(found(c)) != step.obstacles {
			t.Errorf("%s: %v, %q", step.name, err, found(c))
		}
		if executed := took(); executed != step.executed {
			t.Errorf("%s: executed %q, want %q", step.name, executed, step.executed)
		}
		if _, err := os.Stat(record); (err == nil) != step.recorded {
			t.Errorf("%s: the record: %v", step.name, err)
		}
	}
}
