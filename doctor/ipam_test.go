// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	agentpools "github.com/allocnet/allocnet/cluster/pools"
	"github.com/allocnet/allocnet/cniconf"
)

const poolKey = `"ipam": {"type": "allocnet-ipam", "pool": "vlan", "ranges": [{"subnet": "10.91.0.0/24"}], "reserved": ["10.91.0.16/28"], "blockSize": {"4": 26}}`

func poolConfig(t *testing.T, text string) *ipam.Config {
	t.Helper()
	_, text, _ = strings.Cut(text, `"ipam": `)
	c, err := ipam.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var (
	thisHost  = ipam.Host{Instance: "1111", NodeID: "node-1", NodeName: "one", MachineID: "m1"}
	otherHost = ipam.Host{Instance: "2222", NodeID: "node-2", NodeName: "two", MachineID: "m2"}
)

func blockOf(h ipam.Host, block string) ipam.BlockContent {
	return ipam.BlockContent{Pool: "vlan", Block: netip.MustParsePrefix(block), Host: h}
}

func addressOf(h ipam.Host, address string) ipam.AddressContent {
	return ipam.AddressContent{Pool: "vlan", Address: netip.MustParseAddr(address), Host: h, State: ipam.Held}
}

func record(block, state string) pool.BlockUsage {
	return pool.BlockUsage{Block: netip.MustParsePrefix(block), State: state}
}

// healthyPool has nothing to report.
func healthyPool(t *testing.T) poolFacts {
	t.Helper()
	now := time.Now()
	c := poolConfig(t, poolKey)
	content := c.Content()
	lease := netip.MustParseAddr("10.91.0.65")
	return poolFacts{
		Config: c, Host: thisHost, Fence: 20 * time.Hour, Now: now,
		Usage:    pool.Usage{Verified: now.Add(-10 * time.Second), Blocks: []pool.BlockUsage{record("10.91.0.64/26", "held")}, Families: []pool.FamilyUsage{{Family: ipam.IPv4, Blocks: 1, Count: pool.Count{Used: 1, Free: 61}}}},
		Overview: pool.Overview{Content: &content, Blocks: []ipam.BlockContent{blockOf(thisHost, "10.91.0.64/26"), blockOf(otherHost, "10.91.0.128/26")}, Addresses: []ipam.AddressContent{addressOf(otherHost, "10.91.0.17")}},
		Leases:   map[netip.Addr]string{lease: "a1 eth0"}, InUse: map[netip.Addr]string{lease: "/run/netns/a1", netip.MustParseAddr("10.91.0.1"): "/run/netns/gateway", netip.MustParseAddr("192.0.2.1"): "/run/netns/x"},
		Gone: map[string]bool{},
	}
}

// TestExaminePool: each fault has its finding, with the fix, and a healthy pool has none.
func TestExaminePool(t *testing.T) {
	cause := func(err error) error { return fmt.Errorf("list: %w", err) }
	for name, test := range map[string]struct {
		change func(f *poolFacts)
		want   []string
	}{
		"healthy": {func(*poolFacts) {}, nil},
		"twin": {
			func(f *poolFacts) { f.Unusable = cause(ipam.ErrTwin) },
			[]string{"error pool vlan: list: another host has this host's identity | on the copy: stop all allocations with addresses of the pool, then rm -r /var/lib/allocnet/ipam/instance"},
		},
		"copied": {
			func(f *poolFacts) { f.Usage.Copied = true },
			[]string{"error pool vlan: a copy of this machine has used the store within the last hour, and was refused | on the copy: stop all allocations with addresses of the pool, then rm -r /var/lib/allocnet/ipam/instance"},
		},
		"what a copy took": {
			func(f *poolFacts) {
				f.Usage.Copied, f.Overview.Addresses = true, []ipam.AddressContent{addressOf(thisHost, "10.91.0.18")}
			},
			[]string{
				"error pool vlan: a copy of this machine", "warning 10.91.0.18: is this host's in the store, and has no lease here | if the copy of this machine took it, stop its allocations, and: nomad var purge -namespace NAMESPACE allocnet/ipam/1/vlan/a/0a5b0012",
			},
		},
		"refused": {
			func(f *poolFacts) { f.Unread, f.Unusable = cause(ipam.ErrRefused), cause(ipam.ErrRefused) },
			[]string{"error pool vlan: list: the store refuses access | replace the token of the block nomad in /etc/allocnet.d"},
		},
		"no Nomad namespace": {func(f *poolFacts) { f.Unread = errors.Join(cause(ipam.ErrRefused), cause(ipam.ErrNoNamespace)) }, []string{
			"error pool vlan: list: the store refuses access\nlist: the namespace of the store does not exist | create the namespace, or correct namespace of the block ipam in /etc/allocnet.d on all hosts",
		}},
		"unavailable":   {func(f *poolFacts) { f.Unread = cause(ipam.ErrUnavailable) }, []string{"warning pool vlan: list: the store is unavailable | check the Nomad servers"}},
		"misconfigured": {func(f *poolFacts) { f.Unread = errors.New("a.hcl:1,2: x") }, []string{"error pool vlan: a.hcl:1,2: x | correct the block ipam in /etc/allocnet.d"}},
		"mismatch": {
			func(f *poolFacts) { f.Config = poolConfig(t, strings.Replace(poolKey, "16/28", "32/28", 1)) },
			[]string{"error 10.91.0.17: is held by two node-2, and is no reserved address", `error pool vlan: this host has the configuration {"pool":"vlan"`},
		},
		"an unreadable variable": {
			func(f *poolFacts) {
				f.Overview.Unknown = []pool.UnknownEntry{{Path: "allocnet/ipam/1/vlan/b/x", Err: errors.New("version 2")}}
			},
			[]string{"error allocnet/ipam/1/vlan/b/x: is in the store, and cannot be read (version 2)"},
		},
		"foreign": {
			func(f *poolFacts) { f.Overview.Blocks = append(f.Overview.Blocks, blockOf(otherHost, "10.99.0.0/26")) },
			[]string{"error 10.99.0.0/26: of two node-2 is no block of pool vlan | give that host the configuration of the others, or release its blocks: allocnet ipam release --node node-2 vlan"},
		},
		"two owners": {
			func(f *poolFacts) { f.Overview.Blocks[1] = blockOf(otherHost, "10.91.0.64/27") },
			[]string{"error 10.91.0.64/27: of two node-2 is no block", "error 10.91.0.64/27: of two node-2 overlaps 10.91.0.64/26 of one node-1"},
		},
		"lost": {
			func(f *poolFacts) { f.Overview.Blocks[0].Host = otherHost },
			[]string{"error 10.91.0.64/26: was this host's, and is owned by two node-2"},
		},
		"lost and owned again": {
			func(f *poolFacts) { f.Usage.Blocks = []pool.BlockUsage{record("10.91.0.64/26", "lost")} },
			[]string{"error 10.91.0.64/26: was this host's, and was another's meanwhile"},
		},
		"a lost reserved address": {
			func(f *poolFacts) { f.Usage.Reserved = []netip.Addr{netip.MustParseAddr("10.91.0.17")} },
			[]string{"error 10.91.0.17: was this host's, and is owned by two node-2"},
		},
		"missing in the store": {
			func(f *poolFacts) { f.Overview.Blocks = f.Overview.Blocks[1:] },
			[]string{"error 10.91.0.64/26: is held by this host, and missing in the store"},
		},
		"state lost": {
			func(f *poolFacts) { f.Overview.Blocks[1].Host = ipam.Host{Instance: "0000", NodeID: "node-1"} },
			[]string{"warning 10.91.0.128/26: was claimed by this host before its state directory was lost"},
		},
		"a late write": {
			func(f *poolFacts) { f.Usage.Blocks = nil },
			[]string{"warning 10.91.0.64/26: is this host's in the store, and has no record here"},
		},
		"a node that is gone": {
			func(f *poolFacts) { f.Gone["node-2"] = true },
			[]string{"warning 10.91.0.17: is held by node node-2, which Nomad does not know", "warning node node-2: is not known to Nomad, and owns 1 blocks of pool vlan"},
		},
		"a node of which nothing is known": {
			func(f *poolFacts) { f.Unasked = ipam.ErrRefused },
			[]string{"warning pool vlan: which nodes are gone is not examined in full: "},
		},
		"nearly claimed": {
			func(f *poolFacts) {
				f.Overview.Blocks = append(f.Overview.Blocks, blockOf(otherHost, "10.91.0.0/26"), blockOf(otherHost, "10.91.0.192/26"))
			},
			[]string{"warning pool vlan: 4 of 4 IPv4 blocks are claimed | append a range"},
		},
		"nearly full": {
			func(f *poolFacts) { f.Usage.Families[0].Count = pool.Count{Used: 55, Cooling: 3, Free: 4} },
			[]string{"warning pool vlan: this host has 4 free IPv4 addresses: 55 are in use, and 3 were freed"},
		},
		"no agent":   {func(f *poolFacts) { f.Usage.Verified = f.Now.Add(-time.Hour) }, []string{"warning pool vlan: the blocks of this host were not verified for 1h0m0s: no agent maintains the pool"}},
		"fence near": {func(f *poolFacts) { f.Usage.Verified = f.Now.Add(-11 * time.Hour) }, []string{"error pool vlan: the blocks of this host were not verified for 11h0m0s: in 9h0m0s it assigns no new address"}},
		"fenced":     {func(f *poolFacts) { f.Usage.Fenced, f.Usage.Closed = true, cause(ipam.ErrFenced) }, []string{"error pool vlan: list: the blocks of this host are not verified: this host assigns no new address"}},
		"no lease": {
			func(f *poolFacts) { f.Leases = map[netip.Addr]string{} },
			[]string{"error 10.91.0.65: is configured in /run/netns/a1 without a lease of pool vlan"},
		},
		"no namespace": {
			func(f *poolFacts) { delete(f.InUse, netip.MustParseAddr("10.91.0.65")) },
			[]string{"warning 10.91.0.65: is leased to a1 eth0, and no namespace has it, nor an interface of the host | allocnet gc"},
		},
		"unknown namespaces": {func(f *poolFacts) { f.InUse = nil }, nil},
		"unknown leases":     {func(f *poolFacts) { f.Leases = nil }, nil},
	} {
		f := healthyPool(t)
		test.change(&f)
		requireExamined(t, name, examinePool(f), test.want)
	}
}

// requireExamined compares the beginnings of findings.
func requireExamined(t *testing.T, name string, got []Finding, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d findings, want %d: %+v", name, len(got), len(want), got)
		return
	}
	for i, f := range got {
		text := fmt.Sprintf("%s %s: %s | %s", f.Severity, f.Subject, f.Problem, f.Fix)
		problem, fix, both := strings.Cut(want[i], " | ")
		if !strings.HasPrefix(text, problem) || both && !strings.Contains(text, "| "+fix) || f.Fix == "" {
			t.Errorf("%s: %s\nwant %s", name, text, want[i])
		}
	}
}

// poolOf is a pool with the facts of a test.
type poolOf struct{ f poolFacts }

func (p poolOf) Usage(context.Context) (pool.Usage, error) { return p.f.Usage, nil }

func (p poolOf) Show(context.Context) (pool.Overview, error) { return p.f.Overview, p.f.Unread }

func (p poolOf) Status(context.Context) error { return p.f.Unusable }

// TestCollectPool: leases are read with their owners, each node is asked for once, and one
// that Nomad does not tell about is not gone.
func TestCollectPool(t *testing.T) {
	f := healthyPool(t)
	f.Config.DataDir = t.TempDir()
	dir := filepath.Join(f.Config.DataDir, "vlan")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"10.91.0.65": "a1\r\neth0", "fd00::1": "", "last_reserved_ip.0": "10.91.0.65", "lock": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.Overview.Blocks = append(f.Overview.Blocks, blockOf(ipam.Host{NodeID: "node-3"}, "10.91.0.192/26"), blockOf(ipam.Host{}, "10.91.0.0/26"))
	var asked []string
	got := collectPool(t.Context(), f.Config, PoolSource{
		Pool: poolOf{f}, Fence: f.Fence,
		Open: func() (ipam.Store, ipam.Host, error) { return nil, thisHost, nil },
		Gone: func(_ context.Context, id string) (bool, error) {
			asked = append(asked, id)
			return id != "node-1", map[string]error{"node-3": ipam.ErrRefused}[id]
		},
	})
	if diff := cmp.Diff([]string{"node-1", "node-2", "node-3"}, asked); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]bool{"node-2": true}, got.Gone); diff != "" || got.Host != thisHost || !errors.Is(got.Unasked, ipam.ErrRefused) {
		t.Errorf("%+v\n%s", got.Host, diff)
	}
	want := map[netip.Addr]string{netip.MustParseAddr("10.91.0.65"): "a1 eth0", netip.MustParseAddr("fd00::1"): "an unknown attachment"}
	if diff := cmp.Diff(want, got.Leases, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

// TestSharedPools: a pool in files of one host is reported for networks on a shared link, and
// records without a network are.
func TestSharedPools(t *testing.T) {
	f := healthyPool(t)
	networks := load(t, map[string]string{
		"a.conflist": `{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "macvlan", "master": "eth0", ` + poolKey + `}]}`,
		"b.conflist": `{"cniVersion": "1.0.0", "name": "b", "plugins": [{"type": "bridge", ` + poolKey + `}]}`,
		"c.conflist": `{"cniVersion": "1.0.0", "name": "c", "plugins": [{"type": "bridge", "ipam": {"type": "allocnet-ipam", "pool": "X"}}]}`,
	})
	for oneHost, want := range map[bool][]string{
		false: {"error pool X: ", "warning STATE/ipam/pools/old: has the records of a pool that no network uses"},
		true:  {"error pool X: ", `warning NETWORK: network "a" is macvlan, and pool "vlan" is stored on this host`, "warning STATE/ipam/pools/old"},
	} {
		d := &Doctor{StateDir: t.TempDir(), Unprivileged: true, PoolSource: func(*ipam.Config) (PoolSource, error) { return PoolSource{Pool: poolOf{f}, OneHost: oneHost}, nil }}
		for _, name := range []string{"old", "vlan"} {
			if err := os.MkdirAll(filepath.Join(d.StateDir, "ipam", "pools", name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		r := &Report{}
		d.sharedPools(t.Context(), r, networks)
		for i := range want {
			want[i] = strings.NewReplacer("STATE", d.StateDir, "NETWORK", networks[0].Path).Replace(want[i])
		}
		requireExamined(t, fmt.Sprintf("one host %t", oneHost), r.Findings, want)
	}
	d := &Doctor{StateDir: t.TempDir(), PoolSource: func(*ipam.Config) (PoolSource, error) { return PoolSource{}, errors.New("a.hcl:1,2: x") }}
	r := &Report{}
	d.sharedPools(t.Context(), r, networks[:1])
	requireExamined(t, "an invalid configuration", r.Findings, []string{"error pool vlan: a.hcl:1,2: x | correct the block ipam in /etc/allocnet.d"})
}

// TestPublishedOneHost: hosts that publish ports on the same addresses find in the store that they have in common which one may.
func TestPublishedOneHost(t *testing.T) {
	networks := load(t, map[string]string{"a.conflist": `{"cniVersion": "1.0.0", "name": "a", "allocnet": {"publishAddress": {"addresses": "192.0.2.50", "interface": "eth0",
		"ipam": {"type": "allocnet-ipam", "pool": "public", "ranges": [{"subnet": "192.0.2.0/24"}], "reserved": ["192.0.2.48/28"]}}}, "plugins": [{"type": "bridge"}]}`})
	found, broken := agentpools.Find([]*cniconf.Network{networks[0].Network})
	if len(found) != 1 {
		t.Fatalf("%d pools, %v", len(found), broken)
	}
	r := &Report{}
	oneHost(r, networks, found[0])
	requireExamined(t, "published addresses", r.Findings, []string{
		"warning " + networks[0].Path + `: network "a" publishes addresses of pool "public", which is stored on this host | add the block ipam { store = "nomad" }`,
	})
}

// TestRoutedOneHost: hosts find the blocks of others in the store that they have in common.
func TestRoutedOneHost(t *testing.T) {
	for mode, want := range map[string][]string{"flat": nil, "routed": {
		`error pool p: has the mode routed, and is stored on this host: other hosts have no route to its blocks, and assign the same addresses => add the block ipam { store = "nomad" } to /etc/allocnet.d on every host`,
	}} {
		networks := load(t, map[string]string{"a.conflist": routedNetwork("a", `"type": "ptp"`, `"pool": "p", "mode": "`+mode+`", "ranges": [{"subnet": "10.100.0.0/16"}]`)})
		r := &Report{}
		oneHost(r, networks, networks[0].pools[0].Shared)
		requireFindings(t, r, want...)
	}
}
