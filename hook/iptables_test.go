// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook/internal/repair"
	"github.com/allocnet/allocnet/state"
)

// TestIPTablesSwitched: rules that plugins made with an iptables that the host has not by now are removed by forced cleanup,
// for the plugins find none. What is executed in process uses the iptables on record.
func TestIPTablesSwitched(t *testing.T) {
	bothExecutors(t, func(t *testing.T, i installation) {
		for made, switched := range map[[2]string]bool{
			{"nft", "legacy"}: true, {"legacy", "nft"}: true, {"nft", "nft"}: false, {"legacy", ""}: true, {"", "nft"}: false, {"", ""}: false,
		} {
			w := newWorld(t, i)
			host := &fakeHost{iptables: made[0]}
			w.config.Host = host
			w.restart()
			if err := setup(runtimeRequest)(w); err != nil {
				t.Fatal(err)
			}
			host.iptables = made[1]
			if err := w.Teardown(t.Context(), "runtime"); err != nil {
				t.Error(err)
			}
			cleaned := slices.ContainsFunc(w.killer.seen, func(effect string) bool { return strings.HasPrefix(effect, "clean ") })
			if want := switched && !i.inProcess; cleaned != want {
				t.Errorf("%q: forced cleanup: %t, want %t", made, cleaned, want)
			}
			for _, c := range w.chains {
				if c.iptables != made[0] {
					t.Errorf("%q: executed in process with the iptables %q", made, c.iptables)
				}
			}
			w.wantNothing()
		}
	})
}

// TestCheckIPTablesSwitched: CHECK of plugins that find none of their rules is not run.
func TestCheckIPTablesSwitched(t *testing.T) {
	m := newMemory(t, nil)
	a := state.Attachment{Executor: state.Plugins, IPTables: "nft", ConfList: []byte(`{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "bridge"}]}`)}
	m.host.iptables = "legacy"
	skipped, err := repair.CheckPlugins(context.Background(), m.env.On(state.Record{}), a)
	if err != nil || !strings.Contains(skipped, "iptables-nft") {
		t.Errorf("%q, %v", skipped, err)
	}
}
