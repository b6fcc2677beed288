// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/state"
)

// TestAnnouncePublished: the addresses that the host has for ports are announced again on its interface, if there are ports.
func TestAnnouncePublished(t *testing.T) {
	list, err := cniconf.ParseList([]byte(`{"cniVersion": "1.1.0", "name": "web", "plugins": [{"type": "bridge"},
		{"type": "portmap", "publishAddress": {"addresses": ["192.0.2.50", "2001:db8::50"], "interface": "eth0", "ipam": {}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var again []string
	w := &Work{AnnounceAgain: func(netns, iface string, addresses []netip.Addr) {
		again = append(again, fmt.Sprint(netns, " ", iface, " ", addresses))
	}}
	announcePublished(w, state.Attachment{}, list)
	if again != nil {
		t.Errorf("without ports: %q", again)
	}
	announcePublished(w, state.Attachment{CapabilityArgs: map[string]any{"portMappings": []any{}}}, list)
	if want := []string{"/proc/thread-self/ns/net eth0 [192.0.2.50 2001:db8::50]"}; !slices.Equal(again, want) {
		t.Errorf("announced again: %q, want %q", again, want)
	}
}
