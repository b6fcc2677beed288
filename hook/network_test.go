// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/selection"
)

// removable is an engine with the network storage, whose bridge and notes of addresses are there.
func removable(t *testing.T) (m *memory, leases string) {
	t.Helper()
	m = newMemory(t, nil)
	write(t, filepath.Join(m.env.Config.PluginDirs[0], "host-local"), "")
	if err := os.Chmod(filepath.Join(m.env.Config.PluginDirs[0], "host-local"), 0o700); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	m.network(t, "storage", fmt.Sprintf(`{"type": "bridge", "bridge": "storage0", "isGateway": true, "ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.42.0.0/24"}]]}}`, dir))
	m.host.bridges = map[string][]netip.Prefix{"storage0": {netip.MustParsePrefix("10.42.0.1/24")}}
	leases = filepath.Join(dir, "storage")
	for _, name := range []string{"lock", "last_reserved_ip.0"} {
		write(t, filepath.Join(leases, name), "")
	}
	return m, leases
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestRemoveNetwork: its bridge, its notes and its file go, in this order; a dry run only tells, and a repetition has no network.
func TestRemoveNetwork(t *testing.T) {
	m, leases := removable(t)
	file := filepath.Join(m.confDir, "storage.conflist")
	want := []string{"bridge storage0", leases, file}
	for _, dryRun := range []bool{true, false} {
		removed, err := m.RemoveNetwork(t.Context(), "storage", dryRun)
		if err != nil || !slices.Equal(removed.Removed, want) || removed.Kept != nil {
			t.Fatalf("dry run %t: %+v, %v, want %q removed", dryRun, removed, err, want)
		}
		if left := len(m.host.bridges) == 1 && exists(leases) && exists(file); left != dryRun {
			t.Errorf("dry run %t: bridges %v, leases %t, file %t", dryRun, m.host.bridges, exists(leases), exists(file))
		}
	}
	if _, err := m.RemoveNetwork(t.Context(), "storage", false); errdefs.Of(err) != errdefs.Refused {
		t.Errorf("again: %v, want that there is none", err)
	}
}

// TestRemoveNetworkAfterKill: whatever is gone already, the same call removes the rest.
func TestRemoveNetworkAfterKill(t *testing.T) {
	for name, undo := range map[string]func(m *memory, leases string){
		"the bridge": func(m *memory, _ string) { delete(m.host.bridges, "storage0") },
		"a note": func(m *memory, leases string) {
			delete(m.host.bridges, "storage0")
			_ = os.Remove(filepath.Join(leases, "last_reserved_ip.0"))
		},
		"the leases": func(m *memory, leases string) {
			delete(m.host.bridges, "storage0")
			_ = os.RemoveAll(leases)
		},
	} {
		m, leases := removable(t)
		undo(m, leases)
		_, err := m.RemoveNetwork(t.Context(), "storage", false)
		if err != nil || exists(leases) || exists(filepath.Join(m.confDir, "storage.conflist")) {
			t.Errorf("killed after %s: %v, and something is left", name, err)
		}
	}
}

// TestRemoveUsedNetwork: what uses a network is named, and nothing of it goes.
func TestRemoveUsedNetwork(t *testing.T) {
	for name, test := range map[string]struct {
		use  func(m *memory, leases string)
		want string
	}{
		"an attachment": {func(m *memory, _ string) {
			if _, err := m.Setup(t.Context(), Request{ID: "a1", Networks: []selection.Element{{Name: "storage"}}}); err != nil {
				t.Fatal(err)
			}
		}, "allocation a1 has net1"},
		"a lease":   {func(_ *memory, leases string) { write(t, filepath.Join(leases, "10.42.0.9"), "stranger\neth0") }, "10.42.0.9 has a lease"},
		"a primary": {func(m *memory, _ string) { m.network(t, "multi", `{"type": "allocnet-cni", "primary": "storage"}`) }, `network "multi" names it`},
		"a list": {func(m *memory, _ string) {
			m.network(t, "multi", `{"type": "allocnet-cni", "primary": "web", "networks": "other,storage@net5"}`)
		}, `network "multi" names it`},
	} {
		t.Run(name, func(t *testing.T) {
			m, leases := removable(t)
			test.use(m, leases)
			_, err := m.RemoveNetwork(t.Context(), "storage", false)
			if errdefs.Of(err) != errdefs.Conflict || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if len(m.host.bridges) != 1 || !exists(leases) || !exists(filepath.Join(m.confDir, "storage.conflist")) {
				t.Error("something of it is gone")
			}
		})
	}
}

// TestRemoveNetworkKeeps: what is not the network's alone stays, with the reason.
func TestRemoveNetworkKeeps(t *testing.T) {
	for want, use := range map[string]func(m *memory, leases string){
		"bridge storage0: it has another address": func(m *memory, _ string) { m.host.bridges["storage0"] = []netip.Prefix{} },
		`bridge storage0: network "other" is on`:  func(m *memory, _ string) { m.network(t, "other", `{"type": "macvlan", "master": "storage0"}`) },
		"host-local has not made note":            func(_ *memory, leases string) { write(t, filepath.Join(leases, "note"), "") },
		"which is used from now on": func(m *memory, _ string) {
			write(t, filepath.Join(m.confDir, "zzz.conflist"), `{"cniVersion": "1.0.0", "name": "storage", "plugins": [{"type": "ptp"}]}`)
		},
	} {
		m, leases := removable(t)
		use(m, leases)
		removed, err := m.RemoveNetwork(t.Context(), "storage", false)
		if err != nil || len(removed.Kept) != 1 || !strings.Contains(removed.Kept[0], want) {
			t.Errorf("%+v, %v, want %q", removed, err, want)
		}
		if exists(filepath.Join(m.confDir, "storage.conflist")) {
			t.Errorf("%s: the file is left", want)
		}
	}
}
