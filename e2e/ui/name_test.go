// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/ui/uitest"
)

// TestWidestNames: the longest names make no page wider than a phone.
func TestWidestNames(t *testing.T) {
	id, name := strings.Repeat("a", 128), strings.Repeat("long-name_", 25)
	address := netip.MustParsePrefix("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff/128")
	agent := uitest.Start(t)
	agent.Set(api.PathAllocations, []*api.Allocation{{
		ID: id, Identity: allocation.Identity{Namespace: name, Job: name, Group: name, Region: name}, Owner: name, Netns: "/run/netns/" + id, Created: time.Now(), Damaged: []string{name},
		Attachments: []allocation.Attachment{{
			Network: name, Interface: "net123456789012", Primary: true, Task: name, Phase: allocation.Pending, Error: name, Created: time.Now(),
			Observed: allocation.Observed{
				Addresses: []netip.Prefix{address}, DNS: allocation.DNS{Servers: []string{name}},
				Ports: []allocation.PortMapping{{HostPort: 65535, ContainerPort: 65535, Protocol: "sctp", HostIP: address.Addr().String()}},
			},
			Result: []byte(`{"a": "` + name + `"}`),
		}},
	}})
	agent.Set(api.PathDetails, api.Details{Attachments: []allocation.Details{{
		Interface: "net123456789012", ContainerID: strings.Repeat("0", 64), Plugins: []string{name}, RulesError: name,
		Rules: []allocation.Rule{{Program: "ip6tables", Table: "filter", Chain: name, Rule: name}}, Leases: []allocation.Lease{{Address: address.Addr(), Plugin: "allocnet-ipam", Pool: name, Block: address, Problem: name}},
	}}})
	agent.Set(api.PathNetworks, api.Networks{Networks: []api.Network{{Name: name, Path: "/etc/cni/net.d/" + name, Plugins: []string{name, name}, Problem: name}}, Broken: []string{name}})
	agent.Set(api.PathPools, api.Pools{Pools: []api.Pool{{Pool: name, Blocks: []api.PoolBlock{{Block: address.String(), State: "releasing"}}, Problems: []api.PoolProblem{{Problem: "unavailable", Text: name}}}}})
	agent.Set(api.PathRepair, api.Repair{Mode: "report", Damaged: []api.Damage{{Allocation: id, Network: name, Interface: "net123456789012", Since: time.Now(), Missing: []string{name}, Error: name}}})
	agent.Set(api.PathLeaks, api.Leaks{Examined: time.Now(), Leaks: []api.Leak{{Kind: "chain", Where: name, Allocation: id, Network: name, Reason: name, Error: name}}})
	agent.Emit(api.Event{Time: time.Now(), Operation: "attach", Outcome: "failed", Caller: name, Allocation: id, Job: name, Networks: []string{name}, Interface: "net123456789012", Error: name, Missing: []string{name}})
	b := open(t)
	base := b.enter(run(t, agent.Socket))
	for _, path := range []string{"", "allocations", "allocations/" + id, "pools", "events", "problems"} {
		for _, s := range []size{desktop, phone} {
			t.Run(path+" "+s.name, func(t *testing.T) {
				b := b.within(t)
				b.resize(s, "light")
				b.do(chromedp.Navigate(base + path))
				b.requireFit(s)
				b.shoot("ui-long-" + strings.ReplaceAll(path, "/", "-")[:min(len(path), 13)] + "-" + s.name)
				b.requireQuiet()
			})
		}
	}
}
