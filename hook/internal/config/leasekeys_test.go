// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/state"
)

// TestLeaseKeys: with a keeper of leases, DHCP is in process, and keys that would not hold are refused with and without one.
func TestLeaseKeys(t *testing.T) {
	dir := t.TempDir()
	store, err := state.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{StateDir: dir, PluginDirs: []string{dir}, Host: host{}}
	networks := map[string]*cniconf.Network{}
	for name, keys := range map[string][2]string{"plain": {}, "identity": {"", `, "identity": "allocation"`}, "families": {"", `, "families": ["ipv6"]`}, "routed": {`"allocnet": {"routing": "source"},`, ""}, "isolated": {`"allocnet": {"antispoof": true},`, ""}} {
		n, err := cniconf.ParseNetwork("n.conflist", fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", %s "plugins": [{"type": "bridge", "ipam": {"type": "dhcp"%s}}]}`, keys[0], keys[1]))
		if err != nil {
			t.Fatal(err)
		}
		networks[name] = n
	}
	require := func(kept bool, want map[string]string) {
		t.Helper()
		for name, n := range networks {
			if why := c.WhyPlugins(n); (why == nil) != kept || why != nil && !strings.Contains(why.Error(), "no agent of allocnet runs") {
				t.Errorf("%s: leases are kept: %t, plugins are executed because %v", name, kept, why)
			}
			if err := c.CheckKeys(n); (err == nil) != (want[name] == "") || err != nil && !strings.Contains(err.Error(), want[name]) {
				t.Errorf("%s: leases are kept: %t: %v, want %q", name, kept, err, want[name])
			}
		}
	}
	const isolated = "its interfaces ask a DHCP server for an address"
	require(false, map[string]string{"identity": "identity of dhcp in n.conflist is read by allocnet alone", "families": "families of dhcp in n.conflist is read by allocnet alone", "isolated": isolated})
	unlock, err := store.Leases().Keep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	require(true, map[string]string{"routed": `routing "source" in n.conflist: a lease of DHCP may change the addresses`, "isolated": isolated})
}

// TestRouteless: a network with addresses by DHCPv6 has a warning, unless something gives it routes.
func TestRouteless(t *testing.T) {
	for name, test := range map[string]struct {
		options, families, tuning string
		warned                    bool
	}{
		"ignored":    {"", `["ipv4", "ipv6"]`, "", true},
		"IPv4 alone": {"", `["ipv4"]`, "", false},
		"accepted":   {`"allocnet": {"acceptRA": true},`, `["ipv6"]`, "", false},
		"by tuning":  {"", `["ipv6"]`, `, {"type": "tuning", "sysctl": {"net.ipv6.conf.IFNAME.accept_ra": "2"}}`, false},
	} {
		n, err := cniconf.ParseNetwork("n.conflist", fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", %s "plugins": [{"type": "macvlan", "ipam": {"type": "dhcp", "families": %s}}%s]}`, test.options, test.families, test.tuning))
		if err != nil {
			t.Fatal(err)
		}
		if got := warnRouteless(n); (len(got) == 1) != test.warned {
			t.Errorf("%s: %q", name, got)
		}
	}
}
