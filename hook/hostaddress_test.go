// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
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

// TestAddressesListedOnce: one list of the host's addresses does for a call, whatever its networks are.
func TestAddressesListedOnce(t *testing.T) {
	for name, plugin := range map[string]string{
		"with a gateway": `{"type": "bridge", "bridge": "brK", "isGateway": true, "ipam": {"type": "host-local", "subnet": "192.0.K.0/24"}}`,
		"without":        `{"type": "ipvlan"}`,
	} {
		m := newMemory(t, nil)
		m.network(t, "ipam", "host-local")
		var networks []string
		for i := range 5 {
			networks = append(networks, fmt.Sprintf("n%d", i))
			m.network(t, networks[i], strings.ReplaceAll(plugin, "K", strconv.Itoa(i)))
		}
		if _, err := m.Setup(t.Context(), Request{ID: "a", Networks: named(networks...)}); err != nil || m.host.listed.Load() != 1 {
			t.Errorf("%s: listed %d times, %v", name, m.host.listed.Load(), err)
		}
	}
}

// TestSubnetOfTheHost: a gateway gets no address in a subnet that another link of the host has. It is refused before a plugin runs.
func TestSubnetOfTheHost(t *testing.T) {
	const lan, other = `"ipam": {"type": "host-local", "subnet": "192.0.2.0/24"}`, `"ipam": {"type": "host-local", "subnet": "192.0.2.0/25"}`
	prefixes := func(all ...string) (list []netip.Prefix) {
		for _, text := range all {
			list = append(list, netip.MustParsePrefix(text))
		}
		return list
	}
	up0 := netns.Interface{Name: "up0", Up: true, Addresses: prefixes("192.0.2.2/24")}
	br0 := netns.Interface{Name: "br0", Up: true, Addresses: prefixes("192.0.2.1/24")}
	for name, test := range map[string]struct {
		plugin string
		links  []netns.Interface
		want   string
	}{
		"a bridge":              {`"type": "bridge", "bridge": "br0", "isGateway": true, ` + lan, []netns.Interface{up0}, "the bridge br0 gets the address 192.0.2.1, and 192.0.2.0/24 is the subnet of up0"},
		"ptp":                   {`"type": "ptp", ` + lan, []netns.Interface{up0}, "the host's ends of its attachments get the address 192.0.2.1"},
		"no gateway":            {`"type": "bridge", "bridge": "br0", ` + lan, []netns.Interface{up0}, ""},
		"another subnet":        {`"type": "bridge", "bridge": "br0", "isGateway": true, ` + other, []netns.Interface{up0}, ""},
		"the bridge itself":     {`"type": "bridge", "bridge": "br0", "isGateway": true, ` + lan, []netns.Interface{br0}, ""},
		"its alternative name":  {`"type": "bridge", "bridge": "lan", "isGateway": true, ` + lan, []netns.Interface{{Name: "br0", AlternativeNames: []string{"lan"}, Up: true, Addresses: br0.Addresses}}, ""},
		"the bridge has it":     {`"type": "bridge", "bridge": "br0", "isGateway": true, ` + lan, []netns.Interface{br0, up0}, ""},
		"a link that is down":   {`"type": "bridge", "bridge": "br0", "isGateway": true, ` + lan, []netns.Interface{{Name: "up0", Addresses: up0.Addresses}}, ""},
		"ptp, another pair":     {`"type": "ptp", ` + lan, []netns.Interface{{Name: "veth0", Up: true, Addresses: prefixes("192.0.2.1/32")}}, ""},
		"ptp, the host's own":   {`"type": "ptp", "ipam": {"type": "host-local", "subnet": "192.0.2.0/24", "gateway": "192.0.2.2"}`, []netns.Interface{up0}, ""},
		"ptp, a subnet of one":  {`"type": "ptp", "ipam": {"type": "host-local", "subnet": "192.0.2.2/32"}`, []netns.Interface{{Name: "up0", Up: true, Addresses: prefixes("192.0.2.2/32")}}, ""},
		"the default of bridge": {`"type": "bridge", "isDefaultGateway": true, ` + lan, []netns.Interface{up0}, "the bridge cni0 gets"},
	} {
		m := newMemory(t, nil)
		m.host.interfaces = test.links
		m.network(t, "lan", "{"+test.plugin+"}")
		m.network(t, "ipam", "host-local")
		_, err := m.Setup(t.Context(), Request{ID: "a", Networks: named("lan")})
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || errdefs.Of(err) != errdefs.Refused) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if calls := m.exec.names(); test.want != "" && len(calls) > 0 {
			t.Errorf("%s: plugins ran: %v", name, calls)
		}
	}
}
