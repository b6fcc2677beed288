// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/internal/inprocess/firewall"
	"github.com/allocnet/allocnet/state"
)

// withSource is an attachment of a plugin whose address is a source of a zone, with its lease.
func withSource(t *testing.T, plugin, zone string) (f *fakeSystem, clean func() error, lease string) {
	t.Helper()
	f, c, lease := leased(t)
	f.saved = map[string]string{}
	f.sources = []firewall.Source{{Zone: zone, Address: netip.MustParseAddr("10.0.0.2")}}
	l := leftover(`{"type": "bridge", "ipam": {"type": "host-local"}}, ` + plugin)
	cleaner := &Cleaner{CacheDir: c.CacheDir, host: c.host}
	return f, func() error { return cleaner.Clean(t.Context(), []state.Leftover{l})[0] }, lease
}

// TestSources: an address that is a source of a zone opens it for the next allocation. While firewalld does not answer its lease
// stays, and the cleanup has failed; then both go.
func TestSources(t *testing.T) {
	for plugin, zone := range map[string]string{
		`{"type": "firewall"}`: "trusted", `{"type": "firewall", "backend": "firewalld", "firewalldZone": "tasks"}`: "tasks",
	} {
		for _, call := range []string{"find sources", "remove source"} {
			f, clean, lease := withSource(t, plugin, zone)
			f.errs[call] = errFake
			err := clean()
			if _, missing := os.Lstat(lease); missing != nil || err == nil {
				t.Errorf("%s, no answer to %s: %v, and of the lease %v", plugin, call, err, missing)
			}
			delete(f.errs, call)
			err = clean()
			if _, missing := os.Lstat(lease); err != nil || !errors.Is(missing, os.ErrNotExist) || len(f.sources) > 0 {
				t.Errorf("%s: %v, the sources are %v, and of the lease %v", plugin, err, f.sources, missing)
			}
		}
	}
}

// TestSourcesOfOthers stay: of another zone, of one that has the address now, and of a plugin that does not use firewalld.
func TestSourcesOfOthers(t *testing.T) {
	const firewall = `{"type": "firewall"}`
	for name, test := range map[string]struct {
		plugin, zone string
		other        func(f *fakeSystem, lease string)
	}{
		"zone": {firewall, "public", func(*fakeSystem, string) {}},
		"in use": {firewall, "trusted", func(f *fakeSystem, _ string) {
			f.namespaced["/run/netns/b1"] = &fakeNamespace{addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.2/24")}}
		}},
		"leased":   {firewall, "trusted", func(_ *fakeSystem, lease string) { writeFile(t, lease, "b1\r\neth0") }},
		"iptables": {`{"type": "firewall", "backend": "iptables"}`, "trusted", func(f *fakeSystem, _ string) { f.errs["find sources"] = errFake }},
	} {
		f, clean, lease := withSource(t, test.plugin, test.zone)
		test.other(f, lease)
		want := slices.Clone(f.sources)
		if err := clean(); err != nil || !slices.Equal(f.sources, want) {
			t.Errorf("%s: %v, the sources are %v", name, err, f.sources)
		}
	}
}
