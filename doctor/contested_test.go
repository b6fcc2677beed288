// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"errors"
	"net/netip"
	"testing"
)

// TestContested: an address that another host answers for is an error, and one that nothing can ask for is not examined.
func TestContested(t *testing.T) {
	held := map[netip.Addr]string{}
	for _, a := range []string{"192.0.2.50", "192.0.2.51", "2001:db8::50"} {
		held[netip.MustParseAddr(a)] = "eth0"
	}
	asks := func(_ context.Context, iface string, a netip.Addr) (bool, error) {
		if a.Is6() {
			return false, errors.New("interface eth0 is down")
		}
		return a.String() == "192.0.2.51" && iface == "eth0", nil
	}
	r := &Report{}
	contested(t.Context(), r, func() (map[netip.Addr]string, error) { return held, nil }, asks)
	requireExamined(t, "published addresses", r.Findings, []string{
		"error 192.0.2.51: ports of an allocation are published on it (publishAddress), and another host on the link of eth0 answers for it, too",
		"warning 2001:db8::50: ports of an allocation are published on it (publishAddress), and whether another host has it is not known: interface eth0 is down",
	})
	r = &Report{}
	contested(t.Context(), r, func() (map[netip.Addr]string, error) { return nil, errors.New("no memory") }, asks)
	if len(r.Findings) != 1 || !r.Findings[0].Unexamined {
		t.Errorf("without a list of addresses: %+v", r.Findings)
	}
}
