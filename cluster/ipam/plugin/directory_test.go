// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/cluster/connect"
	"github.com/allocnet/allocnet/cluster/ipam"
)

// newPlugin returns a plugin, and a call with a pool in files of a directory.
func newPlugin(dir string) (*Plugin, Call) {
	p := &Plugin{Connect: func(c *ipam.Config) Connection { return connect.New(c.ConfigDir, c.StateDir) }}
	config := fmt.Appendf(nil, `{"cniVersion": "1.1.0", "name": "n", "type": "macvlan", "ipam": {"type": "allocnet-ipam", "pool": "p",
		"dataDir": "%[1]s/leases", "stateDir": "%[1]s/state", "configDir": "%[1]s/none", "ranges": [{"subnet": "10.0.0.0/30"}]}}`, dir)
	return p, Call{ContainerID: "c1", Interface: "eth0", Config: config}
}

// TestStateDirectoryOfOthers: who can write records decides which addresses are assigned.
func TestStateDirectoryOfOthers(t *testing.T) {
	for name, path := range map[string]string{"state directory": "state", "of all pools": "state/ipam/pools", "of the pool": "state/ipam/pools/p"} {
		dir := t.TempDir()
		p, c := newPlugin(dir)
		open := filepath.Join(dir, path)
		if err := os.MkdirAll(open, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(open, 0o777); err != nil { // what is to be refused
			t.Fatal(err)
		}
		for verb, call := range map[string]func(context.Context, Call) error{
			"ADD": func(ctx context.Context, c Call) error { _, err := p.Add(ctx, c); return err },
			"DEL": p.Del, "CHECK": p.Check, "GC": p.GC, "STATUS": p.Status,
		} {
			requireCode(t, verb+", "+name, call(t.Context(), c), types.ErrInternal, open+" has mode 0777: want one in which no other user can write")
		}
		if entries, err := os.ReadDir(open); err != nil || path == "state/ipam/pools/p" && len(entries) > 0 {
			t.Errorf("%s: there are %v, %v", name, entries, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "leases")); !os.IsNotExist(err) {
			t.Errorf("%s: leases: %v", name, err)
		}
	}
}
