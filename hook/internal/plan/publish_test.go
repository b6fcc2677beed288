// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
)

// addressedHost has eth0 with addresses of both families, of which one is published for another allocation, and eth1 with one.
type addressedHost struct{ kernel.Host }

func (addressedHost) Interfaces() ([]netns.Interface, error) {
	of := func(name string, addresses ...string) netns.Interface {
		i := netns.Interface{Name: name}
		for _, a := range addresses {
			i.Addresses = append(i.Addresses, netip.MustParsePrefix(a))
		}
		return i
	}
	eth0 := of("eth0", "192.0.2.1/24", "2001:db8::1/64", "2001:db8::2/64", "2001:db8::50/128")
	eth0.Published = []netip.Addr{netip.MustParseAddr("2001:db8::50")}
	return []netns.Interface{of("lo", "127.0.0.1/8", "203.0.113.10/32", "::1/128", "2001:db8:25::1/128"), eth0, of("eth1", "198.51.100.1/24")}, nil
}

// TestPublishBoth: ports are published on the other family of the same interface, too.
func TestPublishBoth(t *testing.T) {
	host := addressedHost{kernel.NewHost()}
	for hostIP, want := range map[string][]string{
		"": {""}, "192.0.2.1": {"192.0.2.1", "2001:db8::1", "2001:db8::2"}, "2001:db8::2": {"2001:db8::2", "192.0.2.1"}, "::ffff:192.0.2.1": {"::ffff:192.0.2.1", "2001:db8::1", "2001:db8::2"},
		"198.51.100.1": {"198.51.100.1"}, "203.0.113.1": {"203.0.113.1"}, "203.0.113.10": {"203.0.113.10", "2001:db8:25::1"}, "127.0.0.1": {"127.0.0.1"}, "0.0.0.0": {"0.0.0.0", "::"}, "::": {"::", "0.0.0.0"},
	} {
		a := &Attachment{rules: policy.Source{Rules: policy.Rules{Publish: policy.PublishBoth}}, Element: selection.Element{PortMappings: []allocation.ChosenPort{{HostIP: hostIP}}}}
		ports, element, err := a.publishBoth([]portmap.Port{{Label: "a", HostIP: hostIP}}, host)
		var assigned, chosen []string
		for _, p := range ports {
			assigned = append(assigned, p.HostIP)
		}
		for _, p := range element.PortMappings {
			chosen = append(chosen, p.HostIP)
		}
		if err != nil || !cmp.Equal(assigned, want) || !cmp.Equal(chosen, want) {
			t.Errorf("%q: assigned %q, chosen %q, %v, want %q", hostIP, assigned, chosen, err, want)
		}
		a.rules.Publish = ""
		if ports, element, err = a.publishBoth(ports[:1], host); err != nil || len(ports) != 1 || len(element.PortMappings) != 1 {
			t.Errorf("%q without the key: %v, %v, %v", hostIP, ports, element.PortMappings, err)
		}
	}
	// A scheduler that publishes on both families itself.
	a := &Attachment{rules: policy.Source{Rules: policy.Rules{Publish: policy.PublishBoth}}}
	ports, _, err := a.publishBoth([]portmap.Port{{Label: "a", HostIP: "192.0.2.1"}, {Label: "a", HostIP: "2001:db8::1"}}, host)
	if err != nil || len(ports) != 3 {
		t.Errorf("%v, %v, want each address once", ports, err)
	}
}

// TestPublishOn: each port is published on each address, whatever the scheduler chose. Others choose no address.
func TestPublishOn(t *testing.T) {
	addresses := []netip.Addr{netip.MustParseAddr("192.0.2.50"), netip.MustParseAddr("2001:db8::50")}
	chosen := selection.Element{PortMappings: []allocation.ChosenPort{{HostPort: allocation.PortRange{First: 80, Last: 80}}}}
	ports, element, err := publishOn(addresses, []portmap.Port{{Label: "a", HostIP: "192.0.2.1"}}, chosen, true)
	if err != nil || len(ports) != 2 || ports[0].HostIP != "192.0.2.50" || ports[1].HostIP != "2001:db8::50" {
		t.Errorf("assigned ports are %+v, %v", ports, err)
	}
	if all := element.PortMappings; len(all) != 2 || all[0].HostIP != "192.0.2.50" || all[1].HostIP != "2001:db8::50" || chosen.PortMappings[0].HostIP != "" {
		t.Errorf("chosen ports are %+v, and those of the request %+v", all, chosen.PortMappings)
	}
	if _, _, err := publishOn(addresses, []portmap.Port{{Label: "a", HostIP: "192.0.2.1"}}, selection.Element{}, false); err == nil {
		t.Error("an operator's address is accepted and ignored")
	}
	for _, hostIP := range []string{"192.0.2.1", "192.0.2.50", "x"} {
		chosen.PortMappings[0].HostIP = hostIP
		if _, _, err := publishOn(addresses, nil, chosen, true); err == nil {
			t.Errorf("the address %s of a job is accepted and ignored", hostIP)
		}
	}
}

// TestRefusePublished: neither a job nor an operator chooses an address that is for the ports of another allocation, however it is
// written, and whether this host has it now or not.
func TestRefusePublished(t *testing.T) {
	f := Facts{Host: addressedHost{kernel.NewHost()}, PublishedAddresses: func() (map[netip.Addr]string, error) {
		return map[netip.Addr]string{netip.MustParseAddr("192.0.2.60"): "/conf/web.conflist"}, nil
	}}
	for hostIP, want := range map[string]string{
		"2001:db8::50": "the host has it", "2001:0db8:0:0::50": "the host has it", "192.0.2.60": "/conf/web.conflist", "::ffff:192.0.2.60": "/conf/web.conflist",
		"2001:db8::1": "", "192.0.2.1": "", "": "", "x": "",
	} {
		byJob := &Attachment{Element: selection.Element{PortMappings: []allocation.ChosenPort{{}, {HostIP: hostIP}}}}
		for who, err := range map[string]error{
			"job": byJob.refusePublished(nil, f), "operator": new(Attachment).refusePublished([]portmap.Port{{}, {HostIP: hostIP}}, f),
		} {
			if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %q: %v, want %s", who, hostIP, err, want)
			}
		}
	}
}
