// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// TestDELLeavesALease: DEL reports success, and the lease is there still. Forced cleanup removes it, or the
// attachment is pending. The lease of another attachment is none.
func TestDELLeavesALease(t *testing.T) {
	for name, test := range map[string]struct {
		owner   string // of the lease that is left; empty: none is
		removes bool   // whether forced cleanup removes it
		cleans  int    // how often it runs
		pending bool
	}{
		"none":                      {"", false, 0, false},
		"it is removed":             {"a\r\neth0", true, 1, false},
		"it cannot be removed":      {"a\r\neth0", false, 1, true},
		"of an old version":         {"a", false, 1, true},
		"of another interface":      {"a\r\neth1", false, 0, false},
		"of another allocation":     {"b\r\neth0", false, 0, false},
		"of one with a longer name": {"a1\r\neth0", false, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			lease := filepath.Join(dir, "web", "10.1.0.5")
			cleans := 0
			m := newMemory(t, func(c *Config) {
				c.Cleaner = cleanerFunc(func(context.Context, []state.Leftover) []error {
					cleans++
					if !test.removes {
						return []error{errors.New("read-only file system")}
					}
					return []error{os.Remove(lease)}
				})
			})
			if err := os.WriteFile(filepath.Join(m.env.Config.PluginDirs[0], operation.HostLocal), nil, 0o700); err != nil {
				t.Fatal(err)
			}
			m.network(t, "web", fmt.Sprintf(`{"type": "bridge", "ipam": {"type": "host-local", "dataDir": %q, "subnet": "10.1.0.0/24"}}`, dir))
			m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
				if c.Verb == "ADD" {
					m.namespaces.add(c.Environ["CNI_NETNS"], netns.Interface{Name: "eth0", MAC: "02:00:00:00:00:02", LinkOutside: true, Up: true})
				}
				return c.Verb == "ADD", []byte(`{"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": "/x"}], "ips": [{"address": "10.1.0.5/24", "interface": 0}]}`), nil
			}
			if _, err := m.Setup(t.Context(), Request{ID: "a", Primary: &selection.Element{Name: "web", Interface: "eth0"}}); err != nil {
				t.Fatal(err)
			}
			if test.owner != "" {
				if err := errors.Join(os.MkdirAll(filepath.Dir(lease), 0o700), os.WriteFile(lease, []byte(test.owner), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			err := m.Teardown(t.Context(), "a")
			if (err != nil) != test.pending || err != nil && !strings.Contains(err.Error(), "the lease of 10.1.0.5 in network web is there still") {
				t.Errorf("got %v", err)
			}
			if cleans != test.cleans || len(recorded(t, m.Engine)) > 0 != test.pending {
				t.Errorf("forced cleanup ran %d times, on record are %v", cleans, recorded(t, m.Engine))
			}
		})
	}
}
