// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/selection"
)

// TestRefusedBeforeAdd: what no attempt can attach is refused before any plugin runs, and
// nothing is on record.
func TestRefusedBeforeAdd(t *testing.T) {
	m := newMemory(t, nil)
	leases := t.TempDir()
	if err := os.MkdirAll(filepath.Join(leases, "pool"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(leases, "pool", "10.0.0.9"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.network(t, "on-eth9", `{"type": "macvlan", "master": "eth9"}`)
	m.network(t, "pool", fmt.Sprintf(`{"type": "bridge", "capabilities": {"ips": true}, "ipam": {"type": "host-local", "dataDir": %q, "subnet": "10.0.0.0/24"}}`, leases))
	if err := os.WriteFile(filepath.Join(m.env.Config.PluginDirs[0], "host-local"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		element selection.Element
		want    string
	}{
		"no master":    {selection.Element{Name: "on-eth9"}, `network "on-eth9": the host has no link eth9`},
		"out of range": {selection.Element{Name: "pool", IPs: []string{"10.1.0.9/24"}}, `ips of network "pool" as net1: 10.1.0.9 is not in a range`},
		"leased":       {selection.Element{Name: "pool", IPs: []string{"10.0.0.9"}}, `ips of network "pool" as net1: 10.0.0.9 has a lease`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.Setup(t.Context(), Request{ID: "w1", Networks: []selection.Element{test.element}})
			if err == nil || errdefs.Of(err) != errdefs.Refused || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if calls, ids := m.exec.names(), recorded(t, m.Engine); len(calls)+len(ids) > 0 {
				t.Errorf("plugins ran: %v, on record are %v", calls, ids)
			}
		})
	}
	if _, err := m.Setup(t.Context(), Request{ID: "w1", Networks: []selection.Element{{Name: "pool", IPs: []string{"10.0.0.8"}}}}); err != nil {
		t.Errorf("a free address: %v", err)
	}
}

// TestMasterOfAnotherNetwork: a request may select a network whose master is the bridge of
// an earlier one, which is attached first. In another order it is refused.
func TestMasterOfAnotherNetwork(t *testing.T) {
	m := newMemory(t, nil)
	m.network(t, "lan", `{"type": "bridge", "bridge": "lan0"}`)
	m.network(t, "on-lan", `{"type": "macvlan", "master": "lan0"}`)
	for _, names := range [][]string{{"on-lan"}, {"on-lan", "lan"}} {
		const want = `network "on-lan": the host has no link lan0: select network lan, which creates it, before network "on-lan"`
		if _, err := m.Setup(t.Context(), Request{ID: "w1", Networks: named(names...)}); err == nil || errdefs.Of(err) != errdefs.Refused || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", names, err, want)
		}
	}
	if _, err := m.Setup(t.Context(), Request{ID: "w1", Networks: named("lan", "on-lan")}); err != nil {
		t.Fatal(err)
	}
	if calls := m.exec.names(); len(calls) != 2 || !strings.Contains(calls[0], "net1") {
		t.Errorf("calls %v, want ADD for lan before on-lan", calls)
	}
}

// TestPermanentError: an error that no attempt can change is the last one.
func TestPermanentError(t *testing.T) {
	m := newMemory(t, nil)
	m.network(t, "a", "bridge")
	m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
		return c.Verb == "ADD", nil, types.NewError(999, "failed to add route 10.1.2.3/8: invalid argument", "")
	}
	_, err := m.Setup(t.Context(), Request{ID: "w1", Networks: named("a")})
	if err == nil || strings.Contains(err.Error(), "attempts") {
		t.Errorf("got %v, want one attempt", err)
	}
}
