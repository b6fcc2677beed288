// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package portmap

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/inprocess/rules/rulestest"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/roottest"
)

func portmapCall(keys string) *plugin.Call {
	return &plugin.Call{Changes: &plugin.Changes{}, Network: "net", ContainerID: "id", IfName: "eth0", Config: fmt.Appendf(nil, `{"backend": "iptables", %s}`, keys)}
}

// What the reference plugin refuses, in its words.
func TestPortmapRefuses(t *testing.T) {
	mapping := `"runtimeConfig": {"portMappings": [{"hostPort": %d, "containerPort": %d, "protocol": "tcp"}]}`
	for _, c := range []struct{ keys, want string }{
		{`"snat": 1`, "failed to parse network configuration"},
		{`"markMasqBit": 1, "externalSetMarkChain": "CHAIN"`, "Cannot specify externalSetMarkChain and markMasqBit"},
		{`"markMasqBit": 32`, "MasqMarkBit must be between 0 and 31"},
		{`"markMasqBit": -1`, "MasqMarkBit must be between 0 and 31"},
		{`"backend": "ipfw"`, `unrecognized backend "ipfw"`},
		{`"backend": "nftables", "externalSetMarkChain": "CHAIN"`, "nftables backend was requested but configuration contains iptables-specific options [externalSetMarkChain]"},
		{`"backend": "nftables", "conditionsV4": ["-d", "192.0.2.1"]`, "contains iptables-specific options [conditionsV4]"},
		{`"conditionsV4": ["ip", "daddr"], "conditionsV6": ["ip6"]`, "iptables backend was requested but configuration contains nftables-specific options [conditionsV4 conditionsV6]"},
		{fmt.Sprintf(mapping, 0, 80), "Invalid host port number: 0"},
		{fmt.Sprintf(mapping, 80, -1), "Invalid container port number: -1"},
		{`"runtimeConfig": {"portMappings": [{"hostPort": 80, "lastHostPort": 90, "containerPort": 8080, "protocol": "tcp"}]}`, "want a range to be mapped to the same ports"},
	} {
		t.Run(c.keys, func(t *testing.T) {
			if _, _, err := parse(portmapCall(c.keys)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got the error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestUnderstands(t *testing.T) {
	for _, c := range []struct {
		config string
		want   bool
	}{
		{`{"backend": "nftables"}`, true},
		{`{"backend": "nftables", "conditionsV6": [""]}`, true},
		{`{"backend": "nftables", "conditionsV6": ["ip6", "saddr", "::1"]}`, false},
		{`{"backend": "iptables", "conditionsV4": ["-d", "192.0.2.1"]}`, true},
		{`{"backend": "iptables", "conditionsV6": ["-m", "comment", "--comment", "two\nlines"]}`, false},
	} {
		t.Run(c.config, func(t *testing.T) {
			if err := understands([]byte(c.config)); (err == nil) != c.want {
				t.Errorf("got the error %v, want none: %v", err, c.want)
			}
		})
	}
}

// Conditions that iptables reads were executed in process with iptables, so they are removed with
// it, also from a host that has lost the program.
func TestBackendOfOptions(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, keys := range []string{`"conditionsV4": ["-d", "192.0.2.1"]`, `"conditionsV6": ["!", "-d", "::1"]`, `"externalSetMarkChain": "CHAIN"`} {
		for _, verb := range []string{"DEL", "CHECK"} {
			c := portmapCall(`"backend": null, ` + keys)
			c.Verb = verb
			if conf, _, err := parse(c); err != nil || *conf.Backend != rules.BackendIPTables {
				t.Errorf("%s with %s: got the error %v, want the backend iptables", verb, keys, err)
			}
		}
	}
}

// TestRootPublishedAddresses: each address that ports are published to gets its rules, and what they need besides.
func TestRootPublishedAddresses(t *testing.T) {
	roottest.Require(t)
	const ports = `"runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}`
	c := portmapCall(ports + `, "cniVersion": "1.0.0", "prevResult": {"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.1/24"}, {"address": "fd00::1/64"}]}`)
	c.Verb, c.Version, c.Changes = "ADD", "1.0.0", &plugin.Changes{}
	if _, err := add(c); err != nil || len(c.Changes.Rules.Changes) != 3 || len(c.Changes.After) != 2 {
		t.Errorf("rules of %d addresses and a guard, and %d steps after them, %v", len(c.Changes.Rules.Changes), len(c.Changes.After), err)
	}
	unchained := portmapCall(ports)
	unchained.Changes = &plugin.Changes{}
	if _, err := add(unchained); err == nil || err.Error() != "must be called as chained plugin" {
		t.Errorf("ADD without a result: %v", err)
	}
}

// TestMappingOfFamily: conditions are those of the family, and a host IP that is any address binds to none.
func TestMappingOfFamily(t *testing.T) {
	v4, v6 := []string{"-d", "192.0.2.1"}, []string{"-d", "2001:db8::1"}
	conf := &config{ConditionsV4: &v4, ConditionsV6: &v6}
	for ip, want := range map[string][]string{"10.0.0.1": v4, "fd00::1": v6} {
		if got := conf.conditions(net.ParseIP(ip)); !slices.Equal(got, want) {
			t.Errorf("conditions of %s are %q, want %q", ip, got, want)
		}
	}
	for host, want := range map[string]bool{"": false, "0.0.0.0": false, "::": false, "192.0.2.1": true} {
		if got := (mapping{HostIP: host}).bound(); got != want {
			t.Errorf("bound to %q: %t, want %t", host, got, want)
		}
	}
}

// TestPortsAreRemoved: DEL removes what ADD has made, for both families, as the addresses may be unknown.
func TestPortsAreRemoved(t *testing.T) {
	for _, name := range []string{rules.BackendIPTables, rules.BackendNFTables} {
		c := portmapCall(fmt.Sprintf(`"backend": %q, "runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}`, name))
		c.Verb, c.Changes = "DEL", &plugin.Changes{}
		if err := del(c); err != nil {
			t.Fatal(err)
		}
		var places []string
		for _, r := range c.Changes.Rules.Changes {
			switch {
			case !r.Remove:
				t.Errorf("%s: DEL adds rules", name)
			case r.IPTables != nil:
				places = append(places, fmt.Sprint("iptables ", r.IPTables.Family == netfilter.IPv6))
			case r.NFTables != nil:
				places = append(places, fmt.Sprint("nftables ", r.NFTables.Table.Family == netfilter.IPv6))
			}
		}
		if want := []string{name + " false", name + " true"}; !slices.Equal(places, want) {
			t.Errorf("DEL removes from %q, want %q", places, want)
		}
	}
}

func TestSandboxAddresses(t *testing.T) {
	result := &current.Result{
		Interfaces: []*current.Interface{{Name: "br0"}, {Name: "eth0", Sandbox: "/run/netns/a"}, nil, {Name: "eth0"}},
		IPs: []*current.IPConfig{
			{Address: rulestest.Network(t, "192.0.2.1/24"), Interface: current.Int(0)},
			{Address: rulestest.Network(t, "192.0.2.2/24"), Interface: current.Int(2)},
			{Address: rulestest.Network(t, "192.0.2.3/24"), Interface: current.Int(3)},
			{Address: rulestest.Network(t, "fd00::1/64")},
			{Address: rulestest.Network(t, "10.0.0.1/24"), Interface: current.Int(1)},
			{Address: rulestest.Network(t, "10.0.0.2/24"), Interface: current.Int(1)},
		},
	}
	got := sandboxAddresses(result, "eth0")
	if len(got) != 2 || got[0].String() != "10.0.0.1/24" || got[1].String() != "fd00::1/64" {
		t.Errorf("got %v, want 10.0.0.1/24 and fd00::1/64", got)
	}
}

func TestPublishedPortOfNFTables(t *testing.T) {
	for _, c := range []struct {
		mapping mapping
		want    string
	}{
		{mapping{8080, 80, "tcp", "", 0}, ""},
		{mapping{8080, 80, "udp", "0.0.0.0", 0}, ""},
		{mapping{8080, 80, "sctp", "192.0.2.1", 0}, ""},
		{mapping{8080, 80, "TCP", "", 0}, `unknown protocol "TCP"`},
		{mapping{80800, 80, "tcp", "", 0}, "out of range"},
		{mapping{8080, 80800, "tcp", "", 0}, "out of range"},
		{mapping{8080, 80, "tcp", "nowhere", 0}, `host IP "nowhere" is not an address`},
		{mapping{8080, 80, "tcp", "::ffff:192.0.2.1", 0}, ""},
		{mapping{8000, 8000, "tcp", "", 8199}, ""},
		{mapping{8000, 8000, "tcp", "", 65536}, "out of range"},
	} {
		_, err := c.mapping.nftables(rulestest.Network(t, "10.0.0.5/24").IP)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: got the error %v, want %q", c.mapping, err, c.want)
		}
	}
}

// TestLongContainerIDOfNFTables: rules have the ID as their comment, and nft refuses a long one.
func TestLongContainerIDOfNFTables(t *testing.T) {
	none, one := `"snat": false`, `"runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}`
	for _, c := range []struct {
		keys    string
		bytes   int
		refused bool
	}{{one, 128, false}, {one, 129, true}, {none + ", " + one, 129, true}, {none, 129, false}} {
		own := &plugin.Call{Changes: &plugin.Changes{}, ContainerID: strings.Repeat("c", c.bytes), Config: fmt.Appendf(nil, `{"backend": "nftables", %s}`, c.keys)}
		conf, _, err := parse(own)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conf.nftables(rulestest.Network(t, "10.0.0.5/24")); (err != nil) != c.refused {
			t.Errorf("%s, %d bytes: got the error %v, refused is %t", c.keys, c.bytes, err, c.refused)
		}
	}
}

// testRules are those of two ports, of which one is bound to an address of the host.
func testRules(t *testing.T) *rules.IPTables {
	t.Helper()
	bit := defaultMarkBit
	conf := &config{network: "net", containerID: "id", MarkMasqBit: &bit}
	conf.RuntimeConfig.PortMappings = []mapping{{8080, 80, "tcp", "", 0}, {5353, 53, "udp", "192.0.2.1", 0}, {5353, 53, "udp", "fd00::1", 0}}
	return conf.iptables(rulestest.Network(t, "10.0.0.5/24"))
}

// TestRulesOfIPTables: what all share, the chain of the attachment, and what leads to it.
func TestRulesOfIPTables(t *testing.T) {
	want := `-N CNI-HOSTPORT-SETMARK
-N CNI-HOSTPORT-MASQ
-A CNI-HOSTPORT-SETMARK COMMENT -j MARK --set-xmark 0x2000/0x2000
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-I POSTROUTING COMMENT -j CNI-HOSTPORT-MASQ
-N CNI-HOSTPORT-DNAT
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A CNI-DN-30e7440e95deb2a63c98a -p tcp --dport 8080 -s 10.0.0.5/24 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-30e7440e95deb2a63c98a -p tcp --dport 8080 -s 127.0.0.1 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-30e7440e95deb2a63c98a -p tcp --dport 8080 -j DNAT --to-destination 10.0.0.5:80
-A CNI-DN-30e7440e95deb2a63c98a -p udp --dport 5353 -d 192.0.2.1 -s 10.0.0.5/24 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-30e7440e95deb2a63c98a -p udp --dport 5353 -d 192.0.2.1 -s 127.0.0.1 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-30e7440e95deb2a63c98a -p udp --dport 5353 -d 192.0.2.1 -j DNAT --to-destination 10.0.0.5:53
-A CNI-HOSTPORT-DNAT COMMENT -m multiport -p tcp --destination-ports 8080 -j CNI-DN-30e7440e95deb2a63c98a
-A CNI-HOSTPORT-DNAT COMMENT -m multiport -p udp --destination-ports 5353,5353 -j CNI-DN-30e7440e95deb2a63c98a
`
	r := testRules(t)
	if diff := gocmp.Diff(want, rulestest.Text(r)); diff != "" || r.Chain != "CNI-DN-30e7440e95deb2a63c98a" || r.Table != "nat" {
		t.Errorf("in chain %s of table %s: -want +got:\n%s", r.Chain, r.Table, diff)
	}
}

// TestRootSharedIsSeen: see RequireSeen.
func TestRootSharedIsSeen(t *testing.T) {
	roottest.Require(t)
	rulestest.RequireSeen(t, testRules(t))
}

// TestRangeOfPorts: a range is one rule in each chain, whatever makes it.
func TestRangeOfPorts(t *testing.T) {
	bit := defaultMarkBit
	conf := &config{network: "net", containerID: "id", MarkMasqBit: &bit}
	conf.RuntimeConfig.PortMappings = []mapping{{10000, 10000, "udp", "", 10199}}
	want := `-A CNI-DN-30e7440e95deb2a63c98a -p udp --dport 10000:10199 -s 10.0.0.5/24 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-30e7440e95deb2a63c98a -p udp --dport 10000:10199 -s 127.0.0.1 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-30e7440e95deb2a63c98a -p udp --dport 10000:10199 -j DNAT --to-destination 10.0.0.5
-A CNI-HOSTPORT-DNAT COMMENT -m multiport -p udp --destination-ports 10000:10199 -j CNI-DN-30e7440e95deb2a63c98a
`
	r := conf.iptables(rulestest.Network(t, "10.0.0.5/24"))
	r.Shared = nil
	if diff := gocmp.Diff(want, rulestest.Text(r)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	nft, err := conf.nftables(rulestest.Network(t, "fd00::5/64"))
	if err != nil || nft.Rules[0].Text != "udp dport 10000-10199 dnat to fd00::5" || len(nft.Rules) != 2 {
		t.Errorf("%+v, %v", nft.Rules, err)
	}
}

// TestChunks: a range counts twice among the ports of multiport.
func TestChunks(t *testing.T) {
	for _, c := range []struct {
		single, ranges int
		want           []int
	}{{0, 0, nil}, {15, 0, []int{15}}, {16, 0, []int{15, 1}}, {0, 7, []int{7}}, {0, 8, []int{7, 1}}, {14, 1, []int{14, 1}}, {13, 1, []int{14}}} {
		ports := append(slices.Repeat([]string{"1"}, c.single), slices.Repeat([]string{"1:2"}, c.ranges)...)
		var got []int
		for some := range chunks(ports) {
			got = append(got, len(some))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d ports and %d ranges: %v, want %v", c.single, c.ranges, got, c.want)
		}
	}
}
