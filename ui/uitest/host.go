// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package uitest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hostmap"
	"github.com/allocnet/allocnet/policy"
)

// Fill makes the host a busy one with n allocations, with one problem of each kind. Times are
// relative to now.
func (a *Agent) Fill(n int, now time.Time) {
	a.Set(api.PathAllocations, Allocations(n, now))
	a.Set(api.PathNetworks, networks(n))
	a.Set(api.PathPools, pools(now))
	a.Set(api.PathCluster, cluster(now))
	a.Set(api.PathLeaks, api.Leaks{Examined: now.Add(-40 * time.Second), Problems: []string{}, Leaks: []api.Leak{
		{Kind: "chain", Where: "nat CNI-DN-8ce2a1f0b7d64c1e9f3a2", Allocation: "0f81c2aa-4b4e-4f7e-9d3c-1b0e6a52c7d1", Network: "web", Reason: "its allocation is dead", Error: "the chain is used by a rule of another program"},
	}})
	a.Set(api.PathMap, drawing(n))
	a.Set(api.PathDenied, deniedFlows(n, now))
	a.Set(api.PathRepair, damages(n, now))
	for i := range 60 {
		a.Emit(operation(i, now))
	}
}

// jobs are those of the allocations, in turn.
var jobs = []struct{ namespace, job, group string }{
	{"default", "shop", "frontend"}, {"default", "shop", "api"}, {"data", "postgres", "primary"}, {"edge", "dns", "resolver"},
}

// Allocations are n with two networks each.
func Allocations(n int, now time.Time) []*api.Allocation {
	all := make([]*api.Allocation, n)
	for i := range all {
		job := jobs[i%len(jobs)]
		id := fmt.Sprintf("%08x-7a3c-4f5e-8a8e-%012x", uint32(i+1)*2654435761, i)
		created := now.Add(-time.Duration(i+1) * 7 * time.Minute)
		all[i] = &api.Allocation{
			ID: id, Identity: allocation.Identity{Namespace: job.namespace, Job: job.job, Group: job.group, Region: "global"}, Netns: "/run/netns/" + id, Created: created,
			DNSSelection: "primary", DNS: allocation.DNS{Servers: []string{"10.0.0.53"}},
			Attachments: []allocation.Attachment{
				{
					Network: "web", Interface: "eth0", Primary: true, Phase: allocation.Attached, Attempts: 1, Created: created,
					Observed: allocation.Observed{
						MTU: 1500, MAC: fmt.Sprintf("02:00:00:00:%02x:%02x", i/256, i%256),
						Addresses: []netip.Prefix{address(10, 88, i, 16), netip.MustParsePrefix(fmt.Sprintf("fd00:88::%x/64", i+2))}, Gateways: []netip.Addr{netip.MustParseAddr("10.88.0.1")},
						Ports: []allocation.PortMapping{{HostPort: int32(20000 + i), ContainerPort: 8080, Protocol: "tcp"}}, DNS: allocation.DNS{Servers: []string{"10.0.0.53"}},
					},
					Result: json.RawMessage(`{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"/run/netns/x"}],"ips":[{"address":"10.88.0.2/16","gateway":"10.88.0.1","interface":0}]}`),
				},
				{Network: "storage", Interface: "net1", Phase: allocation.Attached, Task: "sidecar", Attempts: 2, Created: created, Observed: allocation.Observed{MTU: 9000, Addresses: []netip.Prefix{address(10, 91, i, 26)}}},
			},
		}
	}
	if n > 0 {
		all[0].Attachments[0].Denied = &allocation.Denied{Packets: 213, Bytes: 12780, Forged: 2}
	}
	if n > 3 {
		all[1].Attachments[1].Phase = allocation.Adding
		all[2].Attachments[1].Phase, all[2].Attachments[1].Error = allocation.Pending, "plugin bridge: DEL: device or resource busy"
	}
	return all
}

func address(a, b, i, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(a), byte(b), byte(i >> 8), byte(i + 2)}), bits)
}

func networks(n int) api.Networks {
	return api.Networks{
		Networks: []api.Network{
			{Name: "web", Path: "/etc/cni/net.d/10-web.conflist", CNIVersion: "1.0.0", Plugins: []string{"bridge", "portmap", "firewall"}, Capabilities: []string{"portMappings"}, Usage: []api.NetworkUsage{{Family: "ipv4", Used: n, Total: 65533}, {Family: "ipv6", Used: n, Total: 1.8446744073709552e19}}},
			{Name: "storage", Path: "/etc/cni/net.d/20-storage.conflist", CNIVersion: "1.0.0", Plugins: []string{"macvlan"}, Capabilities: []string{"ips", "mac"}, Usage: []api.NetworkUsage{{Family: "ipv4", Used: 57, Total: 61}}},
			{Name: "lab", Path: "/etc/cni/net.d/30-lab.conflist", CNIVersion: "1.0.0", Plugins: []string{"vlan"}, Capabilities: []string{}, Problem: `master "eth7" does not exist`},
		},
		Broken: []string{`/etc/cni/net.d/40-old.conflist: line 3: unexpected end of JSON input`},
	}
}

func pools(now time.Time) api.Pools {
	return api.Pools{Pools: []api.Pool{
		{
			Pool: "web", Verified: now.Add(-20 * time.Second), Problems: []api.PoolProblem{},
			Families: []api.PoolFamily{{Family: "ipv4", Blocks: 2, PoolAddresses: api.PoolAddresses{Used: 57, Cooling: 9, Free: 60}}},
			Blocks: []api.PoolBlock{
				{Block: "10.91.0.0/26", State: "held", PoolAddresses: api.PoolAddresses{Used: 52, Cooling: 9, Free: 2}},
				{Block: "10.91.0.64/26", State: "held", PoolAddresses: api.PoolAddresses{Used: 5, Free: 58}},
			},
		},
		{Pool: "vlan100", Families: []api.PoolFamily{}, Blocks: []api.PoolBlock{}, Problems: []api.PoolProblem{{Problem: "unavailable", Text: "Nomad at http://127.0.0.1:4646 does not answer"}}},
	}}
}

func cluster(now time.Time) api.Cluster {
	route := func(block, state, reason string) api.ClusterRoute {
		if state != "installed" {
			return api.ClusterRoute{Block: block, State: state, Reason: reason}
		}
		return api.ClusterRoute{Block: block, Via: "192.0.2.12", Device: "eth0", Mode: "routed", State: state}
	}
	return api.Cluster{Pools: []api.ClusterPool{{
		Pool: "web", Mode: "auto", Address: "192.0.2.11", MTU: 1450, Blocks: []string{"10.91.0.0/26", "10.91.0.64/26"}, Listed: now, Applied: now.Add(-3 * time.Second), Problems: []api.PoolProblem{},
		Nodes: []api.ClusterNode{
			{ID: "n2", Name: "client-2", Address: "192.0.2.12", Verified: now.Add(-30 * time.Second), Routes: []api.ClusterRoute{route("10.91.0.128/26", "installed", "")}, Probe: &api.ClusterProbe{Target: "192.0.2.12", Time: now, Seconds: 0.00042}},
			{ID: "n3", Name: "client-3", Address: "192.0.2.13", Verified: now.Add(-30 * time.Second), Routes: []api.ClusterRoute{route("10.91.0.192/26", "installed", ""), route("10.91.1.0/26", "conflict", "another program has a route to 10.91.1.0/26 by eth1")}, Probe: &api.ClusterProbe{Target: "192.0.2.13", Time: now, Error: "no answer within 1s"}},
		},
	}}}
}

// drawing is a map of the first allocations.
func drawing(n int) api.Map {
	m := &hostmap.Map{Host: "host-1", Networks: []hostmap.Network{
		{Name: "web", File: "/etc/cni/net.d/10-web.conflist", Attachments: n, Devices: []hostmap.Device{{Plugin: "bridge", Name: "web0", Bridge: true, State: hostmap.Up, MTU: 1500}}},
		{Name: "storage", File: "/etc/cni/net.d/20-storage.conflist", Attachments: n, Devices: []hostmap.Device{{Plugin: "macvlan", Name: "eth1", State: hostmap.Down, Drift: "eth1 is down"}}},
	}}
	for _, a := range Allocations(n, time.Now()) {
		drawn := hostmap.Allocation{ID: a.ID, Identity: policy.Identity{Namespace: a.Identity.Namespace, Job: a.Identity.Job, Group: a.Identity.Group}}
		for _, one := range a.Attachments {
			drawn.Attachments = append(drawn.Attachments, hostmap.Attachment{Network: one.Network, Interface: one.Interface, Phase: one.Phase, Addresses: one.Addresses})
		}
		m.Allocations = append(m.Allocations, drawn)
	}
	first := m.Allocations[0]
	first.Attachments[0].Drift = []string{"address 10.88.0.2/16 is gone"}
	return api.Map{SVG: hostmap.SVG(m), Drift: []api.Drift{{Network: "storage", Text: "eth1 is down"}, {Network: "web", Allocation: first.ID, Interface: "eth0", Text: "address 10.88.0.2/16 is gone"}}}
}

// damages are what the first allocation lacks, which the map shows as well, and one that another
// program damages again and again.
func damages(n int, now time.Time) api.Repair {
	all := Allocations(n, now)
	return api.Repair{
		Mode: "rules",
		Damaged: []api.Damage{{
			Allocation: all[0].ID, Network: "web", Interface: "eth0", Since: now.Add(-3 * time.Minute), Missing: []string{"address 10.88.0.2/16 of eth0", "rules in chain CNI-DN-8ce2a1f0b7d64c1e9f3a2 of table nat of iptables"},
			Unrepairable: []string{}, Error: "address 10.88.0.2/16 of eth0: another link has it",
		}},
		Waiting: []api.WaitingRepair{{Allocation: all[0].ID, Repairs: 6}, {Allocation: all[n-1].ID, Repairs: 9}},
	}
}

// deniedFlows are those of the first allocations.
func deniedFlows(n int, now time.Time) api.DeniedFlows {
	all := Allocations(n, now)
	end := func(i int) allocation.FlowEnd {
		a := all[i%n]
		return allocation.FlowEnd{Address: a.Attachments[0].Addresses[0].Addr(), Allocation: a.ID, Interface: "eth0", Network: "web", Link: "web0"}
	}
	return api.DeniedFlows{Flows: []api.DeniedFlow{
		{First: now.Add(-time.Hour), Last: now.Add(-time.Minute), Count: 212, From: end(1), To: end(0), Protocol: "tcp", Port: 5432, Reason: "strict"},
		{First: now.Add(-time.Minute), Last: now, Count: 1, From: allocation.FlowEnd{Address: netip.MustParseAddr("198.51.100.7")}, To: end(0), Protocol: "icmp", Reason: "strict"},
	}}
}

// details are those of an allocation, with a rule that is missing and a lease of another one.
func details(a *api.Allocation) api.Details {
	wire := api.Details{Attachments: []allocation.Details{}}
	for _, n := range a.Attachments {
		d := allocation.Details{Network: n.Network, Interface: n.Interface, ContainerID: a.ID, Executor: "in-process", CNIVersion: "1.0.0", Plugins: []string{"bridge", "portmap", "firewall"}, Updated: a.Created.Add(time.Second), Traffic: &allocation.Traffic{ReceivedBytes: 48_731_113, SentBytes: 911_204}}
		for i, address := range n.Addresses {
			l := allocation.Lease{Address: address.Addr(), Plugin: "host-local", Pool: n.Network, Since: a.Created}
			if n.Network == "storage" {
				l.Plugin, l.Block, l.Problem = "allocnet-ipam", netip.PrefixFrom(address.Addr(), 26).Masked(), `container "web-9", interface "eth0" has the lease`
			}
			d.Leases = append(d.Leases, l)
			if n.Primary {
				program := []string{"iptables", "ip6tables"}[i]
				d.Rules = append(d.Rules,
					allocation.Rule{Program: program, Table: "nat", Chain: "POSTROUTING", Rule: "-s " + address.Addr().String() + ` -m comment --comment "name: \"web\" id: \"` + a.ID + `\"" -j CNI-8ce2a1f0b7d64c1e9f3a2b5c`, Present: true},
					allocation.Rule{Program: program, Table: "filter", Chain: "CNI-FORWARD", Rule: "-s " + address.Addr().String() + " -j ACCEPT", Present: i == 0},
				)
			}
		}
		if n.Phase == allocation.Pending {
			d.Rules, d.RulesError = nil, "the network has plugins or options that allocnet does not know, and rules of theirs are not listed"
		}
		wire.Attachments = append(wire.Attachments, d)
	}
	return wire
}

// operation is one of the last minutes.
func operation(i int, now time.Time) api.Event {
	job := jobs[i%len(jobs)]
	e := api.Event{
		Time: now.Add(-time.Duration(60-i) * 14 * time.Second), Operation: "attach", Outcome: "done", Caller: "allocnet-cni", Allocation: fmt.Sprintf("%08x-7a3c-4f5e-8a8e-%012x", uint32(i%9+1)*2654435761, i%9),
		Namespace: job.namespace, Job: job.job, Networks: []string{"web"}, Interface: "eth0", Attempts: 1, Seconds: 0.02 + float64(i*i%17)/100,
	}
	switch {
	case i%11 == 5:
		e.Outcome, e.Error = "failed", "plugin bridge: could not set bridge's mac: invalid argument"
	case i%3 == 1:
		e.Operation = "detach"
	case i%13 == 8:
		e.Operation, e.Caller, e.Missing = "repair", "agent", []string{"bridge web0", "address 10.88.0.1/16 of web0"}
		e.RemovedBy = []allocation.Remover{{Name: "nft", PID: 4711, Parent: "bash"}}
	case i%13 == 7:
		e.Operation, e.Reason, e.Caller = "cleanup", "gc", "agent"
	}
	return e
}
