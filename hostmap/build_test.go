// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hostmap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// network is one of a CNI configuration directory.
func network(t *testing.T, name, plugin string) *cniconf.Network {
	t.Helper()
	n, err := cniconf.ParseNetwork(name+".conflist", fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": %q, "plugins": [%s]}`, name, plugin))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// attachedTo is an allocation with an attachment to each network.
func attachedTo(id string, networks ...string) *hook.Allocation {
	a := &hook.Allocation{ID: id, Identity: policy.Identity{Job: "api"}, Netns: "/run/netns/" + id}
	for i, n := range networks {
		a.Attachments = append(a.Attachments, hook.Attachment{Network: n, Interface: fmt.Sprintf("net%d", i), Phase: state.Attached})
	}
	return a
}

// TestBuildLeases: those of DHCP are the attachments that have an IPv4 address; one whose lease was lost has none. Other networks have none.
func TestBuildLeases(t *testing.T) {
	leased := attachedTo("a", "lan", "lan", "lan", "web")
	leased.Attachments[0].Addresses = prefixes("10.77.0.5/24", "fd00::5/64")
	leased.Attachments[1].Addresses = prefixes("fd00::6/64")
	leased.Attachments[3].Addresses = prefixes("10.88.0.5/16")
	dhcp := network(t, "lan", `{"type": "macvlan", "master": "lan0", "ipam": {"type": "dhcp"}}`)
	m := build(facts{Networks: []*cniconf.Network{dhcp, network(t, "web", `{"type": "bridge"}`)}, Allocations: []*hook.Allocation{leased}})
	if m.Networks[0].Leases != 1 || m.Networks[1].Leases != 0 {
		t.Errorf("%+v", m.Networks)
	}
	if got := m.Networks[0].describe(); !strings.HasSuffix(got, "; 1 lease of DHCP") {
		t.Errorf("in words: %s", got)
	}
}

// TestBuildNetworks: those of the directories come first, then those that only records have.
func TestBuildNetworks(t *testing.T) {
	f := facts{
		Networks:    []*cniconf.Network{network(t, "web", `{"type": "bridge"}`), network(t, "idle", `{"type": "ptp"}`), network(t, "named", `{"type": "ptp"}`)},
		Allocations: []*hook.Allocation{attachedTo("w1", "web", "old", "gone"), attachedTo("w2", "web", "gone")},
	}
	for name, test := range map[string]struct {
		shows func(string) bool
		want  string
	}{
		"all":         {nil, "web 2, idle 0, named 0, gone 2, old 1"},
		"with filter": {func(n string) bool { return n == "named" }, "web 2, named 0, gone 2, old 1"},
	} {
		f.ShowsUnused = test.shows
		var got []string
		for _, n := range build(f).Networks {
			got = append(got, fmt.Sprintf("%s %d", n.Name, n.Attachments))
			if (n.File == "") != (n.Name == "gone" || n.Name == "old") {
				t.Errorf("%s has the file %q", n.Name, n.File)
			}
		}
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestBuildEmpty: lists are empty, and not null.
func TestBuildEmpty(t *testing.T) {
	text, err := json.Marshal(build(facts{Host: "a"}))
	if err != nil || string(text) != `{"host":"a","networks":[],"allocations":[]}` {
		t.Errorf("%s, %v", text, err)
	}
}

// TestBuildDevices: what attachments need and is not there is a difference.
func TestBuildDevices(t *testing.T) {
	links := []netns.Interface{{Name: "up0", AlternativeNames: []string{"enp1s0"}, Up: true, MTU: 1400, Addresses: prefixes("10.0.0.1/24")}, {Name: "down0", MTU: 1500}}
	for name, test := range map[string]struct {
		plugin      string
		links       []netns.Interface
		used        bool
		want, drift string
	}{
		"bridge":                  {`{"type": "bridge", "bridge": "up0"}`, links, true, "bridge up0, up, MTU 1400, 10.0.0.1/24", ""},
		"bridge is down":          {`{"type": "bridge", "bridge": "down0"}`, links, true, "bridge down0, MTU 1500", "down0 is down"},
		"unused bridge is down":   {`{"type": "bridge", "bridge": "down0"}`, links, false, "bridge down0, down, MTU 1500", ""},
		"bridge is missing":       {`{"type": "bridge"}`, links, true, "bridge cni0", "cni0 is missing"},
		"bridge not created yet":  {`{"type": "bridge"}`, links, false, "bridge cni0, not created yet", ""},
		"master":                  {`{"type": "macvlan", "master": "up0"}`, links, true, "macvlan on up0, up, MTU 1400, 10.0.0.1/24", ""},
		"an alternative name":     {`{"type": "macvlan", "master": "enp1s0"}`, links, true, "macvlan on enp1s0, up, MTU 1400, 10.0.0.1/24", ""},
		"master is missing":       {`{"type": "macvlan", "master": "bond0"}`, links, false, "macvlan on bond0", "bond0 is missing"},
		"master is not named":     {`{"type": "macvlan"}`, links, true, "macvlan on the link of the default route", ""},
		"links are not known":     {`{"type": "bridge"}`, nil, true, "bridge cni0", ""},
		"no device":               {`{"type": "ptp"}, {"type": "portmap"}`, links, true, "ptp", ""},
		"two devices of a chain":  {`{"type": "bridge", "bridge": "up0"}, {"type": "vlan", "master": "up0"}`, links, true, "bridge up0, up, MTU 1400, 10.0.0.1/24; vlan on up0, up, MTU 1400, 10.0.0.1/24", ""},
		"wrong key of the plugin": {`{"type": "bridge", "bridge": 5}`, links, true, "bridge", ""},
	} {
		f := facts{Networks: []*cniconf.Network{network(t, "n", test.plugin)}, Links: test.links}
		if test.used {
			f.Allocations = []*hook.Allocation{attachedTo("w1", "n")}
		}
		n := build(f).Networks[0]
		if got := strings.Join(n.drift(), "; "); n.describe() != test.want || got != test.drift {
			t.Errorf("%s: %q, %q, want %q, %q", name, n.describe(), got, test.want, test.drift)
		}
	}
}

// TestBuildPools: a pool of allocnet-ipam has the size of this host's blocks.
func TestBuildPools(t *testing.T) {
	local := network(t, "local", `{"type": "bridge", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.0.0.0/24"}], [{"subnet": "fd00::/64"}]]}}`)
	shared := network(t, "shared", `{"type": "bridge", "ipam": {"type": "allocnet-ipam", "pool": "san", "ranges": [{"subnet": "10.1.0.0/16"}]}}`)
	f := facts{
		Networks: []*cniconf.Network{local, shared},
		Usage: map[string][]cniconf.Usage{
			"local":  {{Family: "ipv4", Used: 3, Total: big.NewInt(253)}, {Family: "ipv6", Used: 1, Total: new(big.Int).Lsh(big.NewInt(1), 64)}},
			"shared": {{Family: "ipv4", Used: 9, Total: big.NewInt(65533)}},
		},
		Shared: map[string]pool.Usage{"san": {Families: []pool.FamilyUsage{{Family: ipam.IPv4, Blocks: 2, Count: pool.Count{Used: 5, Cooling: 1, Free: 122}}}}},
	}
	var got []string
	for _, n := range build(f).Networks {
		for _, p := range n.Pools {
			got = append(got, fmt.Sprintf("%s %s %s", p.Plugin, p.Family, p.describe()))
		}
	}
	want := []string{
		"host-local ipv4 3 of 253 addresses, 10.0.0.0/24",
		"host-local ipv6 1 of 2^64 addresses, fd00::/64",
		"allocnet-ipam ipv4 5 of 128 addresses in 2 blocks of pool san, 10.1.0.0/16",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestBuildDrift: damage is told from what is not known, without the words around it.
func TestBuildDrift(t *testing.T) {
	damage := func(reason string) error { return &hook.DamageError{Reason: reason} }
	around := func(err error) error {
		return &hook.Error{Op: "check", Allocation: "w1", Network: "a", Interface: "net0", Attempts: 1, Err: err}
	}
	f := facts{
		Allocations: []*hook.Allocation{attachedTo("w1", "a", "b", "c", "d"), attachedTo("w2", "a"), attachedTo("w3", "a")},
		Inspections: map[string]inspection{
			"w1": {
				Checked: []hook.Checked{
					{Interface: "net0", Err: around(damage("interface is down"))},
					{Interface: "net1", Err: around(errors.Join(damage("default route via 10.0.0.1 is gone"), damage("table 5 is gone")))},
					{Interface: "net2", Err: around(errors.New("read recorded status"))},
					{Interface: "net3"},
				},
				Err: errors.Join(damage("allocation w1: interface lo is down")),
			},
			"w2": {Err: errors.New("permission denied")},
		},
	}
	m := build(f)
	for i, want := range []string{"[interface is down] ", "[default route via 10.0.0.1 is gone table 5 is gone] ", "[] read recorded status", "[] "} {
		n := m.Allocations[0].Attachments[i]
		if got := fmt.Sprint(n.Drift, " ", n.NotCompared); got != want {
			t.Errorf("attachment %d: %q, want %q", i, got, want)
		}
	}
	for i, want := range []string{"[interface lo is down] ", "[] permission denied", "[] "} {
		if got := fmt.Sprint(m.Allocations[i].Drift, " ", m.Allocations[i].NotCompared); got != want {
			t.Errorf("allocation %d: %q, want %q", i, got, want)
		}
	}
	if drifts := m.count().drifts; drifts != 4 {
		t.Errorf("%d differences, want 4", drifts)
	}
}

// fakeEngine has allocations, and the errors of others.
type fakeEngine struct {
	all       []*hook.Allocation
	err       error
	inspected chan string
}

func (e *fakeEngine) List(context.Context) iter.Seq2[*hook.Allocation, error] {
	return func(yield func(*hook.Allocation, error) bool) {
		for _, a := range e.all {
			if !yield(a, nil) {
				return
			}
		}
		if e.err != nil {
			yield(nil, e.err)
		}
	}
}

func (e *fakeEngine) Current(a *hook.Allocation) *hook.Allocation { return a }

func (e *fakeEngine) Inspect(_ context.Context, id string) ([]hook.Checked, error) {
	e.inspected <- id
	return nil, &hook.DamageError{Reason: id + " is damaged"}
}

// TestRead: only what is selected is inspected, and what cannot be read is reported.
func TestRead(t *testing.T) {
	unreadable := errors.New("record of w3 is damaged")
	e := &fakeEngine{all: []*hook.Allocation{attachedTo("w1", "web"), attachedTo("w2", "san")}, err: unreadable, inspected: make(chan string, 9)}
	h := Host{
		Name: "node-7", Engine: e,
		Catalog: func() (*cniconf.Catalog, error) {
			return &cniconf.Catalog{
				Networks: []*cniconf.Network{network(t, "san", `{"type": "bridge", "ipam": {"type": "allocnet-ipam", "pool": "san", "ranges": [{"subnet": "10.1.0.0/16"}]}}`), network(t, "web", `{"type": "bridge", "bridge": "lo"}`)},
				Broken:   []cniconf.BrokenFile{{Path: "/conf/x.conf", Err: errors.New("no name")}},
			}, nil
		},
		Shared: func(context.Context, *ipam.Config) (pool.Usage, error) { return pool.Usage{}, errors.New("no store") },
		Select: func(a *hook.Allocation) *hook.Allocation {
			if a.ID == "w2" {
				return a
			}
			return nil
		},
	}
	m, err := Read(t.Context(), h)
	if !errors.Is(err, unreadable) {
		t.Errorf("got %v, want %v", err, unreadable)
	}
	if close(e.inspected); len(e.inspected) != 1 || len(m.Allocations) != 1 || m.Allocations[0].ID != "w2" || m.Allocations[0].Drift[0] != "w2 is damaged" {
		t.Errorf("%d inspected: %+v", len(e.inspected), m.Allocations)
	}
	want := []string{"not usable: /conf/x.conf: no name", `the blocks of pool "san" are not known: no store`}
	if !slices.Equal(m.Problems, want) {
		t.Errorf("problems %q, want %q", m.Problems, want)
	}
	if lo := m.Networks[1].Devices[0]; lo.State != Up || lo.MTU != 65536 {
		t.Errorf("the host's own lo is %+v", lo)
	}
}

// TestReadWithoutNetworks: records are shown without a CNI configuration directory.
func TestReadWithoutNetworks(t *testing.T) {
	e := &fakeEngine{all: []*hook.Allocation{attachedTo("w1", "web")}, inspected: make(chan string, 1)}
	m, err := Read(t.Context(), Host{Engine: e, Catalog: func() (*cniconf.Catalog, error) { return nil, cniconf.ErrNoDir }})
	if err != nil || len(m.Networks) != 1 || len(m.Problems) != 1 || !strings.HasPrefix(m.Problems[0], "the networks are not known: ") {
		t.Errorf("%+v, %v", m, err)
	}
}
