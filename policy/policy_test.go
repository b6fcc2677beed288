// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func source(t *testing.T, file, text string) Source {
	t.Helper()
	s, err := Parse(file, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ports has the job choose host ports.
func ports(numbers ...int) func(*Attachment) {
	return func(a *Attachment) { a.HostPorts = numbers }
}

func TestCheck(t *testing.T) {
	prod := Identity{Namespace: "prod", Job: "db"}
	for _, test := range []struct {
		name          string
		who           Identity
		network, host string
		change        func(*Attachment)
		rule, file    string // of the denial; none: allowed
	}{
		{name: "no rules", who: prod},
		{name: "no rules, nobody known"},
		{name: "allowed by name", who: prod, network: `{"namespaces": ["dev", "prod"]}`},
		{name: "allowed by pattern", who: prod, network: `{"namespaces": ["pr*"]}`},
		{name: "a pattern is no prefix", who: prod, network: `{"namespaces": ["pr"]}`, rule: "namespaces", file: "network"},
		{name: "a pattern is not an expression", who: prod, network: `{"namespaces": ["p.od"]}`, rule: "namespaces", file: "network"},
		{name: "deny beats allow", who: prod, network: `{"namespaces": ["*", "!prod"]}`, rule: "namespaces", file: "network"},
		{name: "deny alone allows the others", who: prod, network: `{"namespaces": ["!dev"]}`},
		{name: "the host's denial beats the network's allowance", who: prod, network: `{"namespaces": ["prod"]}`, host: `{"namespaces": ["!prod"]}`, rule: "namespaces", file: "host"},
		{name: "the network's allowance comes before the host's", who: prod, network: `{"namespaces": ["prod"]}`, host: `{"namespaces": ["dev"]}`},
		{name: "the host's list holds where the network only denies", who: prod, network: `{"namespaces": ["!x"]}`, host: `{"namespaces": ["dev"]}`, rule: "namespaces", file: "host"},
		{name: "an empty list allows nobody", who: prod, network: `{"namespaces": []}`, rule: "namespaces", file: "network"},
		{name: "unknown is not anybody", network: `{"namespaces": ["*"]}`, rule: "namespaces", file: "network"},
		{name: "unknown might be the one denied", network: `{"namespaces": ["!dev"]}`, rule: "namespaces", file: "network"},
		{name: "a job does not widen", who: prod, network: `{"namespaces": ["dev"], "jobs": ["db"]}`, rule: "namespaces", file: "network"},
		{name: "a job narrows", who: prod, network: `{"namespaces": ["prod"], "jobs": ["web/*"]}`, rule: "jobs", file: "network"},
		{name: "a job of a parent", who: Identity{Job: "web/dispatch-1"}, network: `{"jobs": ["web/*"]}`},
		{name: "limit of the host", who: prod, host: `{"maxAttachments": 0}`, rule: "maxAttachments", file: "host"},
		{name: "limit of the network", who: prod, network: `{"maxAttachments": 1}`, host: `{"maxAttachments": 0}`},
		{name: "static IPs denied, not asked", who: prod, network: `{"staticIPs": false}`},
		{name: "static IPs denied", who: prod, network: `{"staticIPs": false}`, change: func(a *Attachment) { a.StaticIPs = true }, rule: "staticIPs", file: "network"},
		{name: "static IPs allowed by the network", who: prod, network: `{"staticIPs": true}`, host: `{"staticIPs": false}`, change: func(a *Attachment) { a.StaticIPs = true }},
		{name: "static MAC denied by the host", who: prod, host: `{"staticMAC": false}`, change: func(a *Attachment) { a.StaticMAC = true }, rule: "staticMAC", file: "host"},
		{name: "MTU denied, the host's rule aside", who: prod, network: `{"mtu": false}`, host: `{"mtu": true}`, change: func(a *Attachment) { a.MTU = true }, rule: "mtu", file: "network"},
		{name: "MTU denied, not chosen", who: prod, network: `{"mtu": false}`},
		{name: "host port without a rule", who: prod, change: ports(4646), rule: "hostPorts", file: "network"},
		{name: "host port outside of the range", who: prod, network: `{"hostPorts": ["20000-20999", "80"]}`, change: ports(20999, 80, 81), rule: "hostPorts", file: "network"},
		{name: "host ports within the ranges", who: prod, network: `{"hostPorts": ["20000-20999", "80"]}`, change: ports(20000, 20999, 80)},
		{name: "host port by the host's rule", who: prod, host: `{"hostPorts": ["1-65535"]}`, change: ports(1, 65535)},
		{name: "host port, the network's none before the host's", who: prod, network: `{"hostPorts": []}`, host: `{"hostPorts": ["80"]}`, change: ports(80), rule: "hostPorts", file: "network"},
		{name: "host port, neither's", who: prod, host: `{"hostPorts": ["80"]}`, change: ports(81), rule: "hostPorts", file: "host"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := Attachment{Network: "storage", Interface: "net1", Rules: source(t, "network", test.network)}
			if test.change != nil {
				test.change(&a)
			}
			err := Check(test.who, source(t, "host", test.host), []Attachment{a})
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

func TestParse(t *testing.T) {
	for text, word := range map[string]string{
		`{"namespace": ["prod"]}`: "namespace",
		`{"namespaces": "prod"}`:  "namespaces",
		`{"namespaces": ["!"]}`:   "namespaces[0]",
		`{"jobs": [""]}`:          "jobs[0]",
		`{"maxAttachments": -1}`:  "maxAttachments -1",
		`{"hostPorts": ["80-"]}`:  "80-",
		`{"hostPorts": ["0"]}`:    "1 to 65535",
		`{"hostPorts": ["9-8"]}`:  "9-8",
		`{"hostPorts": [80]}`:     "hostPorts",
		`{`:                       "unexpected EOF",
		`{} {"namespaces": []}`:   "nothing after it",
	} {
		if _, err := Parse("x.conflist", []byte(text)); err == nil || !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), "x.conflist") {
			t.Errorf("%s: %v, want the file and %q", text, err, word)
		}
	}
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.json")
	if s, err := Load(file); err != nil || s.Describe() != "anybody" {
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
	if err := os.WriteFile(file, []byte(`{"hostRange": true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err == nil || !strings.Contains(err.Error(), "hostRange") {
		t.Errorf("a network's mark in the host's rules: %v", err)
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("a directory is read as a policy")
	}
}
