// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/cluster/pools"
	"github.com/allocnet/allocnet/hook"
)

// pooledDaemon is a daemon with a network whose pool is in files of the host.
func pooledDaemon(t *testing.T) (d *Daemon, configDir string) {
	t.Helper()
	conf, dir := t.TempDir(), t.TempDir()
	text := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "vlan", "type": "macvlan", "ipam": {"type": "allocnet-ipam", "pool": "vlan100",
		"ranges": [{"subnet": "10.91.0.0/24"}], "blockSize": {"4": 26}, "stateDir": %[1]q, "dataDir": "%[1]s/leases", "configDir": "%[1]s/conf"}}`, dir)
	if err := os.WriteFile(conf+"/vlan.conf", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d = newTestDaemon(t, config.Config{ConfDirs: []string{conf}})
	d.pools = d.newPools()
	return d, dir + "/conf"
}

// runPools keeps the pools until the test ends.
func runPools(t *testing.T, d *Daemon) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.pools.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
}

// await repeats a condition until it holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not after 20 s", what)
		}
	}
}

// TestPools: the agent verifies the pool of a network and claims its first block, which shows
// in the metrics of the store.
func TestPools(t *testing.T) {
	d, _ := pooledDaemon(t)
	runPools(t, d)
	await(t, "a block is held and verified", func() bool { // one that is being claimed counts as a block, too
		s := d.pools.Status(t.Context())
		return len(s) == 1 && !s[0].Usage.Verified.IsZero() && len(s[0].Usage.Families) == 1 && s[0].Usage.Families[0].Free > 0
	})
	if reasons := d.pools.NotReady(t.Context()); len(reasons) > 0 {
		t.Errorf("not ready: %v", reasons)
	}
	if free := d.pools.Free(t.Context())["vlan100"]; free < 60 {
		t.Errorf("%d addresses are free", free)
	}
}

// TestPoolStoreDiffers: a pool is not kept in another store than the plugin's.
func TestPoolStoreDiffers(t *testing.T) {
	d, configDir := pooledDaemon(t)
	if err := os.MkdirAll(configDir, 0o700); err != nil {
		t.Fatal(err)
	}
	found, _, err := d.findPools()
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	for text, want := range map[string]string{
		"": "", "ipam {\n store = \"file\"\n}": "", "ipam {\n namespace = \"x\"\n region = \"eu\"\n}": "has nomad, namespace x, region eu", "ipam {\n store = \"etcd\"\n}": "a.hcl:2,10-16",
		"ipam {\n store = \"file\"\n fence = \"20h\"\n}": "", "ipam {\n store = \"file\"\n fence = \"3h\"\n}": "has 3h0m0s",
	} {
		if err := os.WriteFile(filepath.Join(configDir, "a.hcl"), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := d.openPool(found[0], poolSettings(nil))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if err := os.WriteFile(filepath.Join(configDir, "a.hcl"), []byte("ipam {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.openPool(found[0], poolSettings(&config.IPAM{Namespace: "default"})); err != nil {
		t.Errorf("the same store: %v", err)
	}
	if _, err := d.openPool(found[0], poolSettings(nil)); !errors.Is(err, pools.ErrDisagree) {
		t.Errorf("another store: %v", err)
	}
}

// TestPoolSettings: what the block has reaches the keeper, and the hook "noop" has no pools.
func TestPoolSettings(t *testing.T) {
	want := pools.Settings{Store: "nomad, namespace default", KeepDead: true, Grace: time.Minute, Fence: time.Hour}
	if got := poolSettings(&config.IPAM{Reclaim: "manual", Grace: time.Minute, Fence: time.Hour}); got != want {
		t.Errorf("settings %+v, want %+v", got, want)
	}
	d := newTestDaemon(t, config.Config{Hook: hook.NoOp})
	if d.newPools() != nil {
		t.Error("pools of networks that are managed elsewhere")
	}
}
