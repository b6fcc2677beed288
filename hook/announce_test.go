// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/selection"
)

// TestAnnounced: addresses on a link with others are announced once, and those that were asked for again. A failure keeps no attachment.
func TestAnnounced(t *testing.T) {
	for name, failure := range map[string]error{"": nil, "failing": errors.New("no socket")} {
		t.Run(name, func(t *testing.T) {
			var again []string
			m := newMemory(t, func(c *Config) {
				c.AnnounceAgain = func(_, iface string, addresses []netip.Addr) {
					again = append(again, fmt.Sprint(iface, len(addresses)))
				}
			})
			m.host.unannounced = failure
			m.network(t, "unused", "host-local", "static") // installs them
			m.network(t, "pair", "ptp")
			m.network(t, "lan", `{"type": "macvlan", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.0.0.0/16"}]]}}`)
			m.network(t, "chosen", `{"type": "ipvlan", "capabilities": {"ips": true}, "ipam": {"type": "static"}}`)
			m.edit(t, "chosen", `"plugins"`, `"allocnet": {"staticIPs": ["10.1.0.0-10.1.0.255/16"]}, "plugins"`)
			_, err := m.Setup(t.Context(), Request{ID: "a1", Networks: []selection.Element{{Name: "pair"}, {Name: "lan"}, {Name: "chosen", IPs: []string{"10.1.0.9/16"}}}})
			if err != nil {
				t.Fatal(err)
			}
			var first []string
			for _, text := range m.host.announced {
				first = append(first, text[:4])
			}
			if slices.Sort(first); !slices.Equal(first, []string{"net2", "net3"}) {
				t.Errorf("announced %q, want one of net2 and net3", m.host.announced)
			}
			want := []string{"net31"}
			if failure != nil {
				want = nil
			}
			if !slices.Equal(again, want) {
				t.Errorf("again %q, want %q", again, want)
			}
		})
	}
}

// TestAnnounceAgainArguments: what is not announced is refused at once.
func TestAnnounceAgainArguments(t *testing.T) {
	for _, arguments := range [][]string{nil, {"/run/netns/a", "eth0"}, {"/run/netns/a", "eth0", "10.0.0"}} {
		if err := AnnounceAgain(t.Context(), arguments); err == nil {
			t.Errorf("%q is accepted", arguments)
		}
	}
}
