// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
)

// TestFind: a pool is found once, by whichever plugin, and its mistakes name the file.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	for name, ipam := range map[string]string{
		"10-a":     `"pool": "one", "ranges": [{"subnet": "10.91.0.0/16"}]`,
		"20-same":  `"pool": "one", "ranges": [{"subnet": "10.91.0.0/16"}], "routes": [{"dst": "0.0.0.0/0"}]`,
		"30-two":   `"pool": "two", "ranges": [{"subnet": "10.92.0.0/16"}]`,
		"40-other": `"pool": "two", "ranges": [{"subnet": "10.93.0.0/16"}]`,
		"50-dir":   `"pool": "one", "ranges": [{"subnet": "10.91.0.0/16"}], "stateDir": "/srv"`,
		"60-wrong": `"pool": "three", "ranges": [{"subnet": "10.94.0.1/16"}]`,
	} {
		write(t, filepath.Join(dir, name+".conf"), `{"cniVersion": "1.0.0", "name": "`+name+`", "type": "macvlan", "ipam": {"type": "allocnet-ipam", `+ipam+`}}`)
	}
	write(t, dir+"/70-local.conf", `{"cniVersion": "1.0.0", "name": "local", "type": "bridge", "ipam": {"type": "host-local", "pool": "four"}}`)
	write(t, dir+"/75-published.conflist", `{"cniVersion": "1.0.0", "name": "published", "allocnet": {"publishAddress": {"addresses": "10.95.0.20", "interface": "eth0",
		"ipam": {"type": "allocnet-ipam", "pool": "five", "ranges": [{"subnet": "10.95.0.0/16"}], "reserved": ["10.95.0.16/28"]}}}, "plugins": [{"type": "ptp"}]}`)
	write(t, dir+"/76-more.conflist", `{"cniVersion": "1.0.0", "name": "more", "allocnet": {"publishAddress": {"addresses": "10.91.0.20", "interface": "eth0",
		"ipam": {"type": "allocnet-ipam", "pool": "one", "ranges": [{"subnet": "10.91.0.0/16"}]}}}, "plugins": [{"type": "ptp"}]}`)
	write(t, dir+"/80-none.conf", `{"cniVersion": "1.0.0", "name": "none", "type": "loopback"}`)
	catalog, err := cniconf.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	found, broken := Find(catalog.Networks)
	if len(found) != 3 || found[0].Pool != "one" || found[1].Pool != "two" || found[2].Pool != "five" {
		t.Errorf("found %+v", found)
	}
	for i, c := range found {
		if c.PublishedOnly != (i == 2) {
			t.Errorf("pool %s is for published addresses alone: %t", c.Pool, c.PublishedOnly)
		}
	}
	for name, want := range map[string]string{
		"one":   "50-dir.conf: the configurations of the pool disagree: another network of this host has pool \"one\" with other directories",
		"two":   "10.92.0.0/16",
		"three": "60-wrong.conf: invalid",
	} {
		if err := broken[name]; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("pool %s: %v, want %s", name, err, want)
		}
	}
	if len(broken) != 3 {
		t.Errorf("broken: %v", broken)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
