// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/allocnet/allocnet/state"
)

// TestLeft: what a plugin has left is found by its names, and nothing of others.
func TestLeft(t *testing.T) {
	const masqueraded = "inet cni_plugins_masquerade masq_checks"
	comment := func(o Owner) []string {
		o.Interface = "eth0"
		return []string{instance(o) + ", net: web, if: eth0, id: " + o.ContainerID}
	}
	for name, test := range map[string]struct {
		plugin, place string
		rules         []string
		left          bool
	}{
		"chain of masquerading":   {"bridge", "ip nat " + masqueradeChain(a1), []string{""}, true},
		"that of another":         {"bridge", "ip nat " + masqueradeChain(a2), []string{""}, false},
		"rule of masquerading":    {"ptp", masqueraded, comment(a1), true},
		"a rule of another":       {"ptp", masqueraded, comment(a2), false},
		"chain of macspoofchk":    {"bridge", "bridge nat cni-br-iface-a1-eth0-mac", []string{""}, true},
		"rule of macspoofchk":     {"bridge", "bridge nat PREROUTING", []string{"macspoofchk-a1-eth0"}, true},
		"macspoofchk of another":  {"bridge", "bridge nat PREROUTING", []string{"macspoofchk-a2-eth0", "a1"}, false},
		"chain of ports, IPv6":    {"portmap", "ip6 nat " + portChain(a1), []string{""}, true},
		"rule of ports":           {"portmap", "ip cni_hostport hostports", []string{"a2", "a1"}, true},
		"ports of another":        {"portmap", "ip cni_hostport hostports", []string{"a2", "a11"}, false},
		"of another plugin":       {"bandwidth", "ip nat " + portChain(a1), []string{""}, false},
		"rule of the address":     {"firewall", "ip filter CNI-FORWARD", []string{"10.0.0.3", "10.0.0.2"}, true},
		"rule of another address": {"firewall", "ip filter CNI-FORWARD", []string{"10.0.0.3"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeSystem()
			f.rules = map[string][]string{test.place: test.rules}
			cleaner := Cleaner{host: f.host(catalogue.within(t.TempDir()))}
			a := leftover(`{"type": "` + test.plugin + `"}`).Suspects[0].Attachment
			var left *LeftError
			if err := cleaner.Left(t.Context(), a, test.plugin); errors.As(err, &left) != test.left || !test.left && err != nil {
				t.Errorf("%v", err)
			}
			f.errs["search rules"] = errFake
			if err := cleaner.Left(t.Context(), a, test.plugin); test.left && !errors.Is(err, errFake) {
				t.Errorf("what cannot be listed is none: %v", err)
			}
		})
	}
}

// TestRuleOfUnknownForm: forced cleanup removes what the programs list. A rule that is there still keeps the lease.
func TestRuleOfUnknownForm(t *testing.T) {
	f, root := newFakeSystem(), t.TempDir()
	f.rules = map[string][]string{"ip filter CNI-FORWARD": {"10.0.0.2"}}
	lease := filepath.Join(root, "var/lib/cni/networks/web/10.0.0.2")
	writeFile(t, filepath.Join(filepath.Dir(lease), "lock"), "")
	writeFile(t, lease, "a1\r\neth0")
	cleaner := Cleaner{CacheDir: root, host: f.host(catalogue.within(root))}
	leftovers := []state.Leftover{leftover(`{"type": "bridge", "ipam": {"type": "host-local"}}, {"type": "firewall"}`)}
	s := &leftovers[0].Suspects[0]
	s.DelErr = cleaner.Left(t.Context(), s.Attachment, "firewall")
	if errs := cleaner.Clean(t.Context(), leftovers); !errors.Is(errs[0], errUnknownForm) || !exists(lease) {
		t.Errorf("%v, lease %t", errs[0], exists(lease))
	}
	clear(f.rules)
	if errs := cleaner.Clean(t.Context(), leftovers); errs[0] != nil || exists(lease) {
		t.Errorf("later: %v, lease %t", errs[0], exists(lease))
	}
}
