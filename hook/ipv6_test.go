// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
)

// withoutIPv6 returns an engine with a network as the kernel makes it and one without IPv6, on a host with the end of its pair.
func withoutIPv6(t *testing.T) *memory {
	m := newMemory(t, nil)
	m.host.links = map[string]bool{"veth0000000a": true}
	m.host.interfaces = []netns.Interface{{Name: "veth0000000a", Kind: "veth"}}
	for _, network := range []string{"plain", "four"} {
		m.network(t, network, "ptp")
	}
	m.edit(t, "four", `"plugins"`, `"allocnet": {"ipv6": "off"}, "plugins"`)
	return m
}

// TestWithoutIPv6: an interface that a plugin makes comes without IPv6, and no other does. A repair switches it off again at both ends.
func TestWithoutIPv6(t *testing.T) {
	m := withoutIPv6(t)
	a, err := m.Setup(t.Context(), Request{ID: "w1", Networks: []selection.Element{{Name: "plain"}, {Name: "four"}}})
	if err != nil {
		t.Fatal(err)
	}
	ns := m.namespaces.at[a.Netns]
	if !slices.Equal(ns.withoutIPv6, []string{"net2"}) || ns.suspended || !m.host.withoutIPv6["veth0000000a"] {
		t.Errorf("without IPv6 are %v and on the host %v; of new ones: %t", ns.withoutIPv6, m.host.withoutIPv6, ns.suspended)
	}
	ns.withoutIPv6 = nil
	clear(m.host.withoutIPv6)
	o, err := m.env.Begin(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer o.End()
	var missing []string
	lacks, err := o.WorkIn(ns).Lacks(t.Context(), o.Record.Attachments[1])
	for _, l := range lacks {
		missing, err = append(missing, l.What), errors.Join(err, l.Make())
	}
	if err != nil {
		t.Error(err)
	}
	want := []string{"net2 has to be without IPv6", "veth0000000a of the host has to be without IPv6"}
	if !slices.Equal(missing, want) || !slices.Equal(ns.withoutIPv6, []string{"net2"}) || !m.host.withoutIPv6["veth0000000a"] {
		t.Errorf("missing %q, then without IPv6 are %v and on the host %v", missing, ns.withoutIPv6, m.host.withoutIPv6)
	}
}

// TestReportedUplink: a plugin may report a link of the host that others use, too. It keeps its IPv6.
func TestReportedUplink(t *testing.T) {
	m := withoutIPv6(t)
	m.host.interfaces[0].Kind = "bond"
	if _, err := m.Setup(t.Context(), Request{ID: "w1", Networks: []selection.Element{{Name: "four"}}}); err != nil || len(m.host.withoutIPv6) != 0 {
		t.Errorf("without IPv6 are %v of the host, %v", m.host.withoutIPv6, err)
	}
}

// TestIPv6AddressWithoutIPv6: an address that a job chooses, or that an IPAM plugin assigns, is refused, with the file that says off.
func TestIPv6AddressWithoutIPv6(t *testing.T) {
	m := withoutIPv6(t)
	m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
		if c.Verb != "ADD" {
			return false, nil, nil
		}
		return true, []byte(`{"cniVersion": "1.1.0", "interfaces": [{"name": "net1", "sandbox": "x"}], "ips": [{"interface": 0, "address": "fd00::5/64"}]}`), nil
	}
	m.network(t, "unused", "static")
	m.network(t, "chosen", `{"type": "ptp", "capabilities": {"ips": true}, "ipam": {"type": "static"}}`)
	m.edit(t, "chosen", `"plugins"`, `"allocnet": {"ipv6": "off"}, "plugins"`)
	for network, want := range map[string]string{
		"four":   `its plugins have assigned fd00::5/64, and "ipv6" of the network is "off" in ` + m.confDir + `/four.conflist: want "link-local", or no IPv6 addresses`,
		"chosen": `fd00::6`,
	} {
		e := selection.Element{Name: network}
		if network == "chosen" {
			e.IPs = []string{"fd00::6/64"}
		}
		_, err := m.Setup(t.Context(), Request{ID: "w1", Operator: true, Networks: []selection.Element{e}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), network+".conflist") {
			t.Errorf("%s: %v", network, err)
		}
	}
}
