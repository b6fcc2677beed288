// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// TestInspect: of the addresses that an interface has, those of the result have to
// stay. What it gave itself is not among them, nor what is on no interface.
func TestInspect(t *testing.T) {
	addresses := func(texts ...string) (list []netip.Prefix) {
		for _, text := range texts {
			list = append(list, netip.MustParsePrefix(text))
		}
		return list
	}
	interfaces := []netns.Interface{{Name: "eth0", Addresses: addresses("10.0.0.1/32", "2001:db8::5/64")}}
	for ips, want := range map[string][]netip.Prefix{
		`[{"address": "10.0.0.1/24"}]`:    addresses("10.0.0.1/32"),
		`[{"address": "192.0.2.1/24"}]`:   nil,
		`[{"address": "2001:db8::5/64"}]`: addresses("2001:db8::5/64"),
		`[]`:                              nil,
	} {
		a := state.Attachment{Interface: "eth0", Result: []byte(`{"cniVersion": "1.1.0", "ips": ` + ips + `}`)}
		seen, err := inspect(a, interfaces, nil, nil)
		if err != nil || !slices.Equal(seen.Configured, want) {
			t.Errorf("%s: %v, %v, want %v", ips, seen.Configured, err, want)
		}
	}
}
