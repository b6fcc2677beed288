// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"net/netip"
	"strings"
	"testing"
)

// TestLinkLocal: an address that no interface has is no address of this host.
func TestLinkLocal(t *testing.T) {
	if got, err := LinkLocal(netip.MustParseAddr("127.0.0.1")); err != nil || got.IsValid() {
		t.Errorf("of the loopback interface: %s, %v", got, err)
	}
	if _, err := LinkLocal(netip.MustParseAddr("192.0.2.77")); err == nil || !strings.Contains(err.Error(), "no interface of this host has 192.0.2.77") {
		t.Errorf("of no interface: %v", err)
	}
}
