// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
)

// TestAssignedAddressOfTheHost: an IPAM plugin may assign what the host has. That is attempted once, undone, and said.
func TestAssignedAddressOfTheHost(t *testing.T) {
	for name, test := range map[string]struct {
		address string
		refused bool
	}{
		"of the host": {"192.0.2.2/24", true}, "IPv6 of the host": {"2001:db8::2/64", true}, "mapped": {"::ffff:192.0.2.2/120", true},
		"another one": {"192.0.2.3/24", false}, "loopback": {"127.0.0.1/8", false}, "of the link": {"fe80::2/64", false},
	} {
		m := newMemory(t, nil)
		m.host.interfaces = []netns.Interface{{Name: "up0", Addresses: []netip.Prefix{
			netip.MustParsePrefix("192.0.2.2/24"), netip.MustParsePrefix("2001:db8::2/64"), netip.MustParsePrefix("127.0.0.1/8"), netip.MustParsePrefix("fe80::2/64"),
		}}}
		m.network(t, "lan", "ipvlan")
		m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
			if c.Verb != "ADD" {
				return false, nil, nil
			}
			m.namespaces.add(c.Environ["CNI_NETNS"], netns.Interface{Name: "net1", MAC: "02:00:00:00:00:01"})
			return true, fmt.Appendf(nil, `{"cniVersion": "1.1.0", "interfaces": [{"name": "net1", "mac": "02:00:00:00:00:01", "sandbox": "/n"}], "ips": [{"interface": 0, "address": %q}]}`, test.address), nil
		}
		_, err := m.Setup(t.Context(), Request{ID: "a", Networks: named("lan")})
		calls := m.exec.names()
		if !test.refused {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		for _, part := range []string{"which is an address of this host, on up0", m.confDir + "/lan.conflist"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", name, err, part)
			}
		}
		if want := []string{"ADD ipvlan net1", "DEL ipvlan net1"}; !slices.Equal(calls, want) {
			t.Errorf("%s: calls %v, want %v", name, calls, want)
		}
	}
}
