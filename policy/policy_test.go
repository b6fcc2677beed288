// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/strictjson"
)

func source(t *testing.T, file, text string) Source {
	t.Helper()
	if text == "" {
		return Source{File: file}
	}
	s, err := parse(strictjson.Text{Path: file, Line: 1, Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// addresses has the job choose addresses of a network with or without ranges.
func addresses(hasRanges bool, texts ...string) func(*Attachment) {
	return func(a *Attachment) {
		a.StaticIPs, a.HasRanges = true, hasRanges
		for _, text := range texts {
			address, err := netip.ParsePrefix(text)
			if err != nil {
				address = netip.PrefixFrom(netip.MustParseAddr(text), -1)
			}
			a.Addresses = append(a.Addresses, address)
		}
	}
}

// TestStaticIPs has ranges of addresses that a job may choose.
func TestStaticIPs(t *testing.T) {
	const list = `{"staticIPs": ["192.0.2.64-192.0.2.95/24", "10.0.0.0/30", "2001:db8::/64"]}`
	for _, test := range []struct {
		network, host string
		change        func(*Attachment)
		allowed       bool
	}{
		{"", "", addresses(true, "192.0.2.1"), true},
		{"", "", addresses(false, "192.0.2.1/24"), false},
		{`{"staticIPs": true}`, "", addresses(false, "192.0.2.1/24"), false},
		{`{"staticIPs": true}`, list, addresses(false, "192.0.2.64/24"), false},
		{"", list, addresses(false, "192.0.2.64/24"), true},
		{`{"staticIPs": []}`, list, addresses(true, "192.0.2.64"), false},
		{list, "", addresses(false, "192.0.2.64/24", "192.0.2.95/24", "10.0.0.1/30", "10.0.0.2/30", "2001:db8::1/64"), true},
		{list, "", addresses(true, "192.0.2.64", "10.0.0.2/30"), true},
		{list, "", addresses(false, "192.0.2.64"), false},
		{list, "", addresses(false, "192.0.2.64/25"), false},
		{list, "", addresses(false, "192.0.2.63/24"), false},
		{list, "", addresses(false, "192.0.2.96/24"), false},
		{list, "", addresses(false, "10.0.0.0/30"), false},
		{list, "", addresses(false, "10.0.0.3/30"), false},
		{list, "", addresses(false, "2001:db8::/64"), false},
		{list, "", addresses(false, "2001:db8:0:1::1/64"), false},
		{list, "", addresses(false, "192.0.2.64/24", "192.0.2.1/24"), false},
	} {
		a := Attachment{Network: "n", Interface: "eth0", Rules: source(t, "network", test.network)}
		test.change(&a)
		err := Check(Identity{}, source(t, "host", test.host), []Attachment{a})
		if (err == nil) != test.allowed {
			t.Errorf("%v with %s and %s: %v", a.Addresses, test.network, test.host, err)
		}
	}
	for _, text := range []string{`["10.0.0.1"]`, `["10.0.0.1/24"]`, `["10.0.0.9-10.0.0.1/24"]`, `["10.0.1.1-10.0.0.9/24"]`, `["10.0.0.1-10.0.0.9"]`, `["fd00::1-10.0.0.9/24"]`, `[1]`, `"yes"`, `{}`, `1`} {
		if _, err := parse(strictjson.Text{Path: "f", Line: 1, Data: []byte(`{"staticIPs": ` + text + `}`)}); err == nil || !strings.Contains(err.Error(), "staticIPs") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if got, want := source(t, "f", list).Describe(), "static IPs 192.0.2.64-192.0.2.95/24,10.0.0.1-10.0.0.2/30,2001:db8::1-2001:db8::ffff:ffff:ffff:ffff/64"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// ports has the job choose host ports.
func ports(numbers ...int) func(*Attachment) {
	return func(a *Attachment) {
		for _, port := range numbers {
			a.HostPorts = append(a.HostPorts, PortRange{port, port})
		}
	}
}

// portRange has the job choose a range of host ports.
func portRange(first, last int) func(*Attachment) {
	return func(a *Attachment) { a.HostPorts = []PortRange{{first, last}} }
}

func TestCheck(t *testing.T) {
	prod := Identity{Namespace: "prod", Job: "db"}
	for _, test := range []struct {
		name          string
		identity      Identity
		network, host string
		change        func(*Attachment)
		rule, file    string // of the denial; none: allowed
	}{
		{name: "no rules", identity: prod},
		{name: "no rules, unknown job"},
		{name: "allowed by name", identity: prod, network: `{"namespaces": ["dev", "prod"]}`},
		{name: "allowed by pattern", identity: prod, network: `{"namespaces": ["pr*"]}`},
		{name: "a pattern is no prefix", identity: prod, network: `{"namespaces": ["pr"]}`, rule: "namespaces", file: "network"},
		{name: "a pattern is not an expression", identity: prod, network: `{"namespaces": ["p.od"]}`, rule: "namespaces", file: "network"},
		{name: "deny beats allow", identity: prod, network: `{"namespaces": ["*", "!prod"]}`, rule: "namespaces", file: "network"},
		{name: "deny alone allows the others", identity: prod, network: `{"namespaces": ["!dev"]}`},
		{name: "the host's denial beats the network's allowance", identity: prod, network: `{"namespaces": ["prod"]}`, host: `{"namespaces": ["!prod"]}`, rule: "namespaces", file: "host"},
		{name: "the network's allowance comes before the host's", identity: prod, network: `{"namespaces": ["prod"]}`, host: `{"namespaces": ["dev"]}`},
		{name: "the host's list applies where the network only denies", identity: prod, network: `{"namespaces": ["!x"]}`, host: `{"namespaces": ["dev"]}`, rule: "namespaces", file: "host"},
		{name: "an empty list allows none", identity: prod, network: `{"namespaces": []}`, rule: "namespaces", file: "network"},
		{name: "an unknown namespace does not match", network: `{"namespaces": ["*"]}`, rule: "namespaces", file: "network"},
		{name: "an unknown namespace may be the denied one", network: `{"namespaces": ["!dev"]}`, rule: "namespaces", file: "network"},
		{name: "a job does not widen", identity: prod, network: `{"namespaces": ["dev"], "jobs": ["db"]}`, rule: "namespaces", file: "network"},
		{name: "a job narrows", identity: prod, network: `{"namespaces": ["prod"], "jobs": ["web/*"]}`, rule: "jobs", file: "network"},
		{name: "a job of a parent", identity: Identity{Job: "web/dispatch-1"}, network: `{"jobs": ["web/*"]}`},
		{name: "limit of the host", identity: prod, host: `{"maxAttachments": 0}`, rule: "maxAttachments", file: "host"},
		{name: "limit of the network", identity: prod, network: `{"maxAttachments": 1}`, host: `{"maxAttachments": 0}`},
		{name: "static IPs denied, not asked", identity: prod, network: `{"staticIPs": false}`},
		{name: "static IPs denied", identity: prod, network: `{"staticIPs": false}`, change: func(a *Attachment) { a.StaticIPs = true }, rule: "staticIPs", file: "network"},
		{name: "static IPs allowed by the network", identity: prod, network: `{"staticIPs": true}`, host: `{"staticIPs": false}`, change: func(a *Attachment) { a.StaticIPs = true }},
		{name: "static MAC denied by the host", identity: prod, host: `{"staticMAC": false}`, change: func(a *Attachment) { a.StaticMAC = true }, rule: "staticMAC", file: "host"},
		{name: "MTU denied, the host's rule aside", identity: prod, network: `{"mtu": false}`, host: `{"mtu": true}`, change: func(a *Attachment) { a.MTU = true }, rule: "mtu", file: "network"},
		{name: "MTU denied, not chosen", identity: prod, network: `{"mtu": false}`},
		{name: "host port without a rule", identity: prod, change: ports(4646), rule: "hostPorts", file: "network"},
		{name: "host port outside of the range", identity: prod, network: `{"hostPorts": ["20000-20999", "80"]}`, change: ports(20999, 80, 81), rule: "hostPorts", file: "network"},
		{name: "host ports within the ranges", identity: prod, network: `{"hostPorts": ["20000-20999", "80"]}`, change: ports(20000, 20999, 80)},
		{name: "a range of host ports within one of the rule", identity: prod, network: `{"hostPorts": ["80", "20000-20999"]}`, change: portRange(20800, 20999)},
		{name: "a range of host ports beyond the rule", identity: prod, network: `{"hostPorts": ["20000-20999"]}`, change: portRange(20800, 21000), rule: "hostPorts", file: "network"},
		{name: "a range of host ports from before the rule", identity: prod, network: `{"hostPorts": ["20000-20999"]}`, change: portRange(19999, 20000), rule: "hostPorts", file: "network"},
		{name: "host port by the host's rule", identity: prod, host: `{"hostPorts": ["1-65535"]}`, change: ports(1, 65535)},
		{name: "host port, the network's none before the host's", identity: prod, network: `{"hostPorts": []}`, host: `{"hostPorts": ["80"]}`, change: ports(80), rule: "hostPorts", file: "network"},
		{name: "host port, neither's", identity: prod, host: `{"hostPorts": ["80"]}`, change: ports(81), rule: "hostPorts", file: "host"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := Attachment{Network: "storage", Interface: "net1", Rules: source(t, "network", test.network)}
			if test.change != nil {
				test.change(&a)
			}
			err := Check(test.identity, source(t, "host", test.host), []Attachment{a})
			var denied *DeniedError
			if !errors.As(err, &denied) {
				if err != nil || test.rule != "" {
					t.Errorf("got %v, want a denial by %q", err, test.rule)
				}
				return
			}
			if denied.Rule != test.rule || denied.File != test.file {
				t.Errorf("denied by %s in %s, want %q in %q", denied.Rule, denied.File, test.rule, test.file)
			}
			for _, word := range []string{"storage", "net1", test.rule, test.file} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
		})
	}
}

func TestMaxAttachmentsCountsOneNetwork(t *testing.T) {
	rules := source(t, "f", `{"maxAttachments": 1}`)
	a, b := Attachment{Network: "a", Rules: rules}, Attachment{Network: "b", Rules: rules}
	if err := Check(Identity{}, Source{}, []Attachment{a, b}); err != nil {
		t.Error(err)
	}
	if err := Check(Identity{}, Source{}, []Attachment{a, b, a}); err == nil {
		t.Error("the second attachment to one network is allowed")
	}
}

// TestDenials has the whole text of each denial.
func TestDenials(t *testing.T) {
	prod := Identity{Namespace: "prod", Job: "db"}
	for rules, test := range map[string]struct {
		identity Identity
		change   func(*Attachment)
		want     string
	}{
		`{"namespaces": ["dev", "team-*"]}`: {prod, nil, `namespace "prod", where the rule is dev,team-* (rule "namespaces" in f)`},
		`{"namespaces": []}`:                {prod, nil, `namespace "prod", where the rule is none (rule "namespaces" in f)`},
		`{"namespaces": ["!prod"]}`:         {prod, nil, `namespace "prod", where the rule is !prod (rule "namespaces" in f)`},
		`{"namespaces": ["prod"]}`:          {Identity{}, nil, `the namespace is unknown, and the rule is prod (rule "namespaces" in f)`},
		`{"jobs": ["web"]}`:                 {prod, nil, `job "db", where the rule is web (rule "jobs" in f)`},
		`{"maxAttachments": 0}`:             {prod, nil, `an allocation may attach to it 0 times (rule "maxAttachments" in f)`},
		`{"maxAttachments": 2}`:             {prod, func(a *Attachment) { a.Existing = 2 }, `an allocation may attach to it 2 times (rule "maxAttachments" in f)`},
		`{"staticIPs": false}`:              {prod, func(a *Attachment) { a.StaticIPs = true }, `a job may not choose its addresses: omit "ips" (rule "staticIPs" in f)`},
		`{"staticMAC": false}`:              {prod, func(a *Attachment) { a.StaticMAC = true }, `a job may not choose its MAC: omit "mac" and "infiniband-guid" (rule "staticMAC" in f)`},
		`{"mtu": false}`:                    {prod, func(a *Attachment) { a.MTU = true }, `a job may not choose its MTU: omit "mtu" (rule "mtu" in f)`},
		`{"hostPorts": ["80", "90-99"]}`:    {prod, ports(81), `a job may not choose host port 81, where the rule allows 80,90-99: let the scheduler assign a port, and name it in "ports" (rule "hostPorts" in f)`},
	} {
		a := Attachment{Network: "storage", Interface: "net1", Rules: source(t, "f", rules)}
		if test.change != nil {
			test.change(&a)
		}
		err := Check(test.identity, Source{}, []Attachment{a})
		if want := `network "storage" as net1 is denied: ` + test.want; err == nil || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", rules, err, want)
		}
	}
}

func TestParse(t *testing.T) {
	const keys = "want namespaces, jobs, maxAttachments, staticIPs, staticMAC, mtu, hostPorts, hostRange, acceptRA, awaitRA, ipv6, arp, routing, executor, egressAddress, mtuFrom, publish, publishAddress, dns, isolation, antispoof, fromHost, enforce, narrow"
	const portRange = "want a port or a range from 1 to 65535, as in 20000-20999"
	for text, want := range map[string]string{
		`{"namespace": ["prod"]}`:                             `unknown key "namespace" of the policy in x.conflist:1; did you mean namespaces?`,
		"{\n\n\"Namespaces\": [\"prod\"]}":                    `unknown key "Namespaces" of the policy in x.conflist:3; did you mean namespaces?`,
		`{"owner": "me"}`:                                     `unknown key "owner" of the policy in x.conflist:1; ` + keys,
		`{"namespaces": ["prod"], "namespaces": ["*"]}`:       `key "namespaces" of the policy in x.conflist:1 is there twice: remove one of them`,
		"{\"namespaces\": [\"prod\"],\n\"Namespaces\": null}": `key "Namespaces" of the policy in x.conflist:2 is there twice: remove one of them`,
		`{"staticIPs": null}`:                                 `policy in x.conflist:1: staticIPs: null: want a value, or omit the key`,
		`{"namespaces": "prod"}`:                              `policy in x.conflist:1:21: namespaces is a JSON string, want array`,
		"{\n\"jobs\": [\"a\"\n":                               `policy in x.conflist:3:1: invalid JSON: the text ends before it is complete: a bracket, a brace or a quote is missing`,
		"{\n\"jobs\": [\"a\"],\n}":                            `policy in x.conflist:3:1: invalid JSON: invalid character '}' looking for beginning of object key string`,
		`{"namespaces": ["!"]}`:                               `policy in x.conflist: namespaces[0] "!": want a name or a pattern, as in team-* or !team-x`,
		`{"namespaces": ["!!team-x"]}`:                        `policy in x.conflist: namespaces[0] "!!team-x": want a name or a pattern, as in team-* or !team-x`,
		`{"namespaces": ["! team-x"]}`:                        `policy in x.conflist: namespaces[0] "! team-x": want a name or a pattern, as in team-* or !team-x`,
		`{"jobs": [" !b"]}`:                                   `policy in x.conflist: jobs[0] " !b": want a name or a pattern, as in team-* or !team-x`,
		`{"jobs": ["a", ""]}`:                                 `policy in x.conflist: jobs[1] "": want a name or a pattern, as in team-* or !team-x`,
		`{"maxAttachments": -1}`:                              `policy in x.conflist: maxAttachments -1: want 0 or more`,
		`{"hostPorts": ["+80"]}`:                              `policy in x.conflist: hostPorts "+80": ` + portRange,
		`{"hostPorts": ["80-"]}`:                              `policy in x.conflist: hostPorts "80-": ` + portRange,
		`{"hostPorts": ["0"]}`:                                `policy in x.conflist: hostPorts "0": ` + portRange,
		`{"hostPorts": ["80", "9-8"]}`:                        `policy in x.conflist: hostPorts "9-8": ` + portRange,
		`{"hostPorts": ["99999999999999999999-80"]}`:          `policy in x.conflist: hostPorts "99999999999999999999-80": ` + portRange,
		`{"hostPorts": ["80-99999999999999999999"]}`:          `policy in x.conflist: hostPorts "80-99999999999999999999": ` + portRange,
		`{"hostPorts": ["1-65536"]}`:                          `policy in x.conflist: hostPorts "1-65536": ` + portRange,
		`{"awaitRA": true}`:                                   `policy in x.conflist: awaitRA true: want acceptRA true, too: without, interfaces ignore router advertisements`,
		`{"ipv6": false}`:                                     `policy in x.conflist:1:14: ipv6 is a JSON bool, want string`,
		`{"arp": "off"}`:                                      `policy in x.conflist: arp "off": want "strict", or omit it`,
		`{"ipv6": "on"}`:                                      `policy in x.conflist: ipv6 "on": want "off" or "link-local", or omit it`,
		`{"isolation": "stric"}`:                              `policy in x.conflist: isolation "stric": want "none", "network" or "strict"`,
		`{"isolation": true}`:                                 `policy in x.conflist:1:18: isolation is a JSON bool, want string`,
		`{"antispoof": "on"}`:                                 `policy in x.conflist:1:18: antispoof is a JSON string, want true or false`,
		`{"antispoof": null}`:                                 `policy in x.conflist:1: antispoof: null: want a value, or omit the key`,
		`{"routing": "policy"}`:                               `policy in x.conflist: routing "policy": want "source", or omit it`,
		`{`:                                                   `policy in x.conflist:1:1: invalid JSON: the text ends before it is complete: a bracket, a brace or a quote is missing`,
		``:                                                    `policy in x.conflist: want one JSON object`,
		" \n":                                                 `policy in x.conflist: want one JSON object`,
		`null`:                                                `policy in x.conflist: want one JSON object`,
		`[]`:                                                  `policy in x.conflist: want one JSON object`,
		`{} {"namespaces": []}`:                               `policy in x.conflist: want one JSON object and nothing after it`,
	} {
		_, err := parse(strictjson.Text{Path: "x.conflist", Line: 1, Data: []byte(text)})
		if err == nil || err.Error() != want || errdefs.Of(err) != errdefs.Refused {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// TestEachKeyTwice: of each key, both are refused, whatever the second one says and how it is written.
func TestEachKeyTwice(t *testing.T) {
	keys := []string{"namespaces", "jobs", "maxAttachments", "staticIPs", "staticMAC", "mtu", "hostPorts", "hostRange", "acceptRA", "awaitRA", "ipv6", "arp", "routing", "executor", "egressAddress", "mtuFrom", "publish", "publishAddress", "dns", "isolation", "antispoof"}
	for _, key := range keys {
		for _, again := range []string{key, strings.ToUpper(key), strings.ToUpper(key[:1]) + key[1:]} {
			for _, value := range []string{"null", "[]", "true", `["*"]`, "{}"} {
				text := fmt.Sprintf(`{%q: %s, %q: %s}`, key, value, again, value)
				var mistake *strictjson.Mistake
				if _, err := parse(strictjson.Text{Path: "f", Line: 1, Data: []byte(text)}); !errors.As(err, &mistake) || mistake.Key != again {
					t.Errorf("%s: %v", text, err)
				}
			}
		}
	}
}

// TestPatternsMatchWholeNames: whatever stands before or behind a name, line breaks included,
// makes it another name.
func TestPatternsMatchWholeNames(t *testing.T) {
	around := []string{"", "\n", "\r\n", "x", "\nx", "x\n", "\x00", "\u2028", " "}
	for _, before := range around {
		for _, after := range around {
			name := before + "prod" + after
			if name == "prod" {
				continue
			}
			for pattern, want := range map[string]bool{"prod": false, "*": true, "*prod*": true, "prod*": before == "", "*prod": after == "", "p*d": false, ".rod": false, "pro[d]": false, before + "prod*": true} {
				for _, denied := range []bool{false, true} {
					rules := []string{pattern}
					if denied {
						rules = []string{"!" + pattern}
					}
					a := Attachment{Network: "n", Rules: Source{Rules: Rules{Namespaces: rules}, File: "f"}}
					if got := Check(Identity{Namespace: name}, Source{}, []Attachment{a}) == nil; got != (want != denied) {
						t.Errorf("%q on %q: allowed is %t", rules, name, got)
					}
				}
			}
		}
	}
}

// TestOf: rules have an effect in one place.
func TestOf(t *testing.T) {
	network := func(text string) (Source, error) {
		n, err := cniconf.ParseNetwork("n.conflist", []byte(text))
		if err != nil {
			return Source{}, err
		}
		return Of(n)
	}
	for text, want := range map[string]string{
		"{\"cniVersion\": \"1.0.0\", \"name\": \"n\",\n\"plugins\": [{\"type\": \"bridge\",\n\"allocnet\": {\"jobs\": []}}]}": `policy in n.conflist:3: the key "allocnet" has no effect there: want "allocnet" beside "plugins"`,
		`{"cniVersion": "1.0.0", "name": "n", "alocnet": {"jobs": []}, "plugins": [{"type": "bridge"}]}`:                      `policy in n.conflist:1: the key "alocnet" has no effect there: want "allocnet" beside "plugins"`,
		`{"cniVersion": "1.0.0", "name": "n", "Allocnet": {"jobs": []}, "plugins": [{"type": "bridge"}]}`:                     `policy in n.conflist:1: the key "Allocnet" has no effect there: want "allocnet" beside "plugins"`,
		`{"cniVersion": "1.0.0", "name": "n", "jobs": [], "plugins": [{"type": "bridge"}]}`:                                   `policy in n.conflist:1: the key "jobs" has no effect there: want it in the object "allocnet" beside "plugins"`,
		`{"cniVersion": "1.0.0", "name": "n", "Jobs": [], "plugins": [{"type": "bridge"}]}`:                                   `policy in n.conflist:1: the key "Jobs" has no effect there: want it in the object "allocnet" beside "plugins"`,
		`{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "calico"}, {"type": "x", "staticips": false}]}`:            `policy in n.conflist:1: the key "staticips" has no effect there: want it in the object "allocnet" beside "plugins"`,
		`{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "calico"}, {"type": "x", "staticIPs": false}]}`:            `policy in n.conflist:1: the key "staticIPs" has no effect there: want it in the object "allocnet" beside "plugins"`,
		`{"cniVersion": "1.0.0", "name": "n", "type": "bridge", "hostPorts": ["80"]}`:                                         `policy in n.conflist:1: the key "hostPorts" has no effect there: want it in the object "allocnet" beside "plugins"`,
		`{"cniVersion": "1.0.0", "name": "n", "isolation": "strict", "plugins": [{"type": "bridge"}]}`:                        `policy in n.conflist:1: the key "isolation" has no effect there: want it in the object "allocnet" beside "plugins"`,
		`{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "bridge", "Isolation": "strict"}]}`:                        `policy in n.conflist:1: the key "Isolation" has no effect there: want it in the object "allocnet" beside "plugins"`,
		`{"cniVersion": "1.0.0", "name": "n", "type": "bridge", "antispoof": true}`:                                           `policy in n.conflist:1: the key "antispoof" has no effect there: want it in the object "allocnet" beside "plugins"`,
		`{"cniVersion": "1.0.0", "name": "n", "type": "bridge", "staticMAC": false}`:                                          `policy in n.conflist:1: the key "staticMAC" has no effect there: want it in the object "allocnet" beside "plugins"`,
		"{\"cniVersion\": \"1.0.0\", \"name\": \"n\", \"plugins\": [{\"type\": \"b\"}],\n\"allocnet\":\n{\n\"job\": []}}":     `unknown key "job" of the policy in n.conflist:4; did you mean jobs?`,
		`{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "b"}], "allocnet": null}`:                                  `policy in n.conflist: want one JSON object`,
		`{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "b"}], "allocnet": {}, "allocnet": {"jobs": []}}`:          `n.conflist: key "allocnet" of the network in n.conflist:1 is there twice: remove one of them`,
		`{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "b"}], "Plugins": []}`:                                     `n.conflist: key "Plugins" of the network in n.conflist:1 is there twice: remove one of them`,
	} {
		if _, err := network(text); err == nil || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "b"}]}`:                                            "unrestricted",
		`{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "b"}], "_comment": "x", "allocnet": {"jobs": []}}`: "jobs none",
		`{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "b", "alocnet": 1}]}`:                              "unrestricted", // a plugin's own key
		`{"cniVersion": "1.0.0", "name": "n", "type": "bridge", "allocnet": {"maxAttachments": 1}}`:                   "at most 1",
	} {
		if s, err := network(text); err != nil || s.Describe() != want {
			t.Errorf("%s: %q, %v, want %q", text, s.Describe(), err, want)
		}
	}
}

// TestRulesAreReadOnce: an attach asks for the rules of a network many times, and all judge by the same.
func TestRulesAreReadOnce(t *testing.T) {
	for options, valid := range map[string]bool{`{"namespaces": ["prod"]}`: true, `{"namespaces": ["prod"], "job": []}`: false} {
		n, err := cniconf.ParseNetwork("n", []byte(`{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "bridge"}], "allocnet": `+options+`}`))
		if err != nil {
			t.Fatal(err)
		}
		first, errFirst := Of(n)
		again, errAgain := Of(n)
		if (errFirst == nil) != valid || errFirst != errAgain || valid && &first.Namespaces[0] != &again.Namespaces[0] { //nolint:errorlint // the same one
			t.Errorf("%s: %+v, %v, then %+v, %v", options, first, errFirst, again, errAgain)
		}
	}
}

func TestRestrict(t *testing.T) {
	for text, want := range map[string]bool{
		``:                                false,
		`{}`:                              false,
		`{"staticIPs": true}`:             false,
		`{"hostPorts": ["80"]}`:           false, // allows
		`{"hostRange": true}`:             false,
		`{"namespaces": []}`:              true,
		`{"jobs": ["a"]}`:                 true,
		`{"maxAttachments": 1}`:           true,
		`{"staticIPs": false}`:            true,
		`{"staticMAC": false}`:            true,
		`{"staticMAC": true}`:             false,
		`{"staticIPs": ["192.0.2.1/32"]}`: true,
		`{"mtu": false}`:                  true,
		`{"isolation": "none"}`:           false,
		`{"isolation": "network"}`:        true,
		`{"isolation": "strict", "antispoof": false}`: true,
		`{"antispoof": true}`:                         true,
		`{"antispoof": false}`:                        false,
	} {
		if got := source(t, "f", text).Restrict(); got != want {
			t.Errorf("%s: Restrict is %t, want %t", text, got, want)
		}
	}
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.json")
	if s, err := Load(file); err != nil || s.Describe() != "unrestricted" {
		t.Errorf("no file: %+v, %v", s, err)
	}
	text := `{"namespaces": ["prod"], "jobs": [], "maxAttachments": 2, "staticIPs": false, "staticMAC": false, "mtu": false, "hostPorts": ["80", "90-99"]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(file)
	if want := "namespaces prod; jobs none; at most 2; no static IPs; no static MAC; no own MTU; host ports 80,90-99"; err != nil || s.Describe() != want || s.File != file {
		t.Errorf("got %q in %s, %v, want %q", s.Describe(), s.File, err, want)
	}
	for text, option := range map[string]string{
		`{"hostRange": true}`: "hostRange true", `{"acceptRA": true}`: "acceptRA true", `{"routing": "source"}`: `routing "source"`, `{"ipv6": "off"}`: `ipv6 "off"`, `{"arp": "strict"}`: `arp "strict"`, `{"isolation": "strict"}`: `isolation "strict"`, `{"antispoof": false}`: "antispoof", `{"narrow": true}`: "narrow true",
		`{"egressAddress": "192.0.2.10"}`: "egressAddress", `{"mtuFrom": "uplink"}`: `mtuFrom "uplink"`, `{"publish": "both"}`: `publish "both"`, publishExample: "publishAddress",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(file); err == nil || err.Error() != "policy in "+file+": "+option+": want it in the conflist of a network" {
			t.Errorf("%s in the host's rules: %v", option, err)
		}
	}
}

// TestLoadFailsClosed: only where nothing is are there no rules.
func TestLoadFailsClosed(t *testing.T) {
	dir := t.TempDir()
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"empty": "", "blank": " \n", "null": "null", "rules": `{"jobs": []}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	link("/nowhere/policy.json", "dangling")
	link("dangling", "dangling-twice")
	link("loop", "loop")
	link("/nowhere", "no-directory")
	link("rules", "linked")
	for name, want := range map[string]bool{
		"missing": true, "missing/policy.json": true, "missing/a/policy.json": true, "linked": true, "rules": true,
		"empty": false, "blank": false, "null": false, "pipe": false, ".": false, "dangling": false, "dangling-twice": false, "loop": false,
		"no-directory/policy.json": false, "no-directory/a/policy.json": false, "rules/policy.json": false,
	} {
		file := filepath.Join(dir, name)
		s, err := Load(file)
		if s.File != file {
			t.Errorf("%s: the rules are those of %s", name, s.File)
		}
		if (err == nil) != want || err == nil && (s.Describe() == "unrestricted") != strings.HasPrefix(name, "missing") {
			t.Errorf("%s: %q, %v, want rules or none: %t", name, s.Describe(), err, want)
		}
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("a directory: %v, want that it is no regular file", err)
	}
}

// TestIPv6Off: a network without IPv6 may not ask for it, whatever its plugin is.
func TestIPv6Off(t *testing.T) {
	for conf, uses := range map[string]string{
		`{"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.0.0.0/24"}}`:                                            "",
		`{"type": "bridge", "ipam": {"type": "dhcp"}}`:                                                                           "",
		`{"type": "bridge", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.0.0.0/24"}], [{"subnet": "fd00::/64"}]]}}`: "the range fd00::/64",
		`{"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.0.0.0/24", "routes": [{"dst": "::/0"}]}}`:                  "a route to ::/0",
		`{"type": "macvlan", "ipam": {"type": "static", "addresses": [{"address": "fd00::5/64"}]}}`:                              "the address fd00::5/64",
		`{"type": "tuning", "sysctl": {"net.ipv6.conf.IFNAME.disable_ipv6": "0"}}`:                                               "the sysctl net.ipv6.conf.IFNAME.disable_ipv6 0",
		`{"type": "tuning", "sysctl": {"net.ipv6.conf.IFNAME.disable_ipv6": "1"}}`:                                               "",
		`{"type": "loopback"}`: "the plugin loopback, which assigns ::1",
		`{"type": "macvlan", "ipam": {"type": "dhcp", "families": ["ipv4", "ipv6"]}}`: "addresses by DHCPv6",
	} {
		for value, refused := range map[string]bool{"off": uses != "", "link-local": false} {
			n, err := cniconf.ParseNetwork("n.conflist", fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", "allocnet": {"ipv6": %q}, "plugins": [%s]}`, value, conf))
			if err != nil {
				t.Fatal(err)
			}
			want := `policy in n.conflist: ipv6 "off": the network has ` + uses + `: want "link-local", or remove that`
			if s, err := Of(n); s.IPv6 != value || refused != (err != nil) || refused && (err.Error() != want || errdefs.Of(err) != errdefs.Refused) {
				t.Errorf("%s with %s: %+v, %v", conf, value, s, err)
			}
		}
	}
	n, err := cniconf.ParseNetwork("n.conflist", []byte(`{"cniVersion": "1.0.0", "name": "n", "allocnet": {"ipv6": "off", "acceptRA": true}, "plugins": [{"type": "ptp"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Of(n); err == nil || !strings.Contains(err.Error(), "acceptRA true") {
		t.Errorf("with acceptRA: %v", err)
	}
}
