// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/listener"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
)

// TestPublishBothAndListeners: an assigned port is not published on an address of the other family where a program of the host listens:
// the scheduler knows that the port is free on its own address only.
func TestPublishBothAndListeners(t *testing.T) {
	for name, test := range map[string]struct {
		address, protocol string
		port              int
		refused           bool
	}{
		"on the other family":    {"2001:db8::1", "tcp", 20000, true},
		"another protocol":       {"2001:db8::1", "udp", 20000, false},
		"another port":           {"2001:db8::1", "tcp", 20001, false},
		"on the scheduler's own": {"192.0.2.1", "tcp", 20000, false},
	} {
		m := newMemory(t, nil)
		m.network(t, "web", `{"type": "ptp", "capabilities": {"portMappings": true}}`)
		m.edit(t, "web", `"plugins"`, `"allocnet": {"publish": "both"}, "plugins"`)
		m.host.interfaces = []netns.Interface{{Name: "eth0", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8::1/64")}}}
		m.host.listeners = []listener.Listener{{Protocol: test.protocol, Address: netip.MustParseAddr(test.address), Port: test.port}}
		_, err := m.Setup(t.Context(), Request{ID: "w1", Primary: &selection.Element{Name: "web"}, Ports: []portmap.Port{{Label: "http", HostPort: 20000, To: 80, Protocol: "tcp", HostIP: "192.0.2.1"}}})
		if refused := errdefs.Of(err) == errdefs.Conflict && strings.Contains(err.Error(), "a program of this host listens on 2001:db8::1"); refused != test.refused || err != nil && !refused {
			t.Errorf("%s: %v, want it refused: %t", name, err, test.refused)
		}
	}
}
