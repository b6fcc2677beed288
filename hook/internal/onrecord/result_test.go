// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	types100 "github.com/containernetworking/cni/pkg/types/100"

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

func TestResultAddresses(t *testing.T) {
	result, err := types100.NewResult([]byte(`{"cniVersion": "1.0.0",
		"interfaces": [{"name": "veth1"}, {"name": "net9", "sandbox": "/x"}, {"name": "eth0", "sandbox": "/x"}],
		"ips": [{"address": "10.0.0.1/24"}, {"address": "10.9.0.1/24", "interface": 1}, {"address": "10.1.0.1/24", "interface": 0},
			{"address": "fd00::1/64", "interface": 2}, {"address": "10.2.0.1/24", "interface": 2}, {"address": "10.3.0.1/24", "interface": 7}]}`))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(Addresses(result.(*types100.Result)))
	const want = "[fd00::1/64 10.2.0.1/24 10.9.0.1/24 10.0.0.1/24 10.3.0.1/24]"
	if got != want {
		t.Errorf("got %s, want %s: in the sandbox by name, then of no interface, none of the host's", got, want)
	}
}
