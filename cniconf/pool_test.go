// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"net/netip"
	"testing"
)

func TestRangeSize(t *testing.T) {
	for name, test := range map[string]struct {
		a    AddressRange
		want string
	}{
		"subnet without ends and gateway": {AddressRange{Subnet: netip.MustParsePrefix("10.0.0.0/24")}, "253"},
		"smallest":                        {AddressRange{Subnet: netip.MustParsePrefix("10.0.0.0/30")}, "1"},
		"range": {AddressRange{Subnet: netip.MustParsePrefix("10.0.0.0/24"), RangeStart: netip.MustParseAddr("10.0.0.10"),
			RangeEnd: netip.MustParseAddr("10.0.0.19")}, "10"},
		"range with the gateway in it": {AddressRange{Subnet: netip.MustParsePrefix("10.0.0.0/24"), RangeStart: netip.MustParseAddr("10.0.0.10"),
			RangeEnd: netip.MustParseAddr("10.0.0.19"), Gateway: netip.MustParseAddr("10.0.0.12")}, "9"},
		"IPv6":      {AddressRange{Subnet: netip.MustParsePrefix("fd00::/64")}, "18446744073709551614"},
		"no subnet": {AddressRange{}, "0"},
	} {
		if got := test.a.Size().String(); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
