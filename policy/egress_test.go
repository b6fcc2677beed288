// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/strictjson"
)

func egressOf(text string) (Source, error) {
	return parse(strictjson.Text{Path: "f", Line: 1, Data: []byte(`{"egressAddress": ` + text + `}`)})
}

// TestEgress: the first rule that is for an allocation counts.
func TestEgress(t *testing.T) {
	prod, dev := Identity{Namespace: "prod", Job: "db-1"}, Identity{Namespace: "dev", Job: "db-1"}
	for _, c := range []struct {
		text     string
		identity Identity
		want     string
	}{
		{`"192.0.2.10"`, prod, "[192.0.2.10]"},
		{`"192.0.2.10"`, Identity{}, "[192.0.2.10]"},
		{`["192.0.2.10", "2001:db8::10"]`, prod, "[192.0.2.10 2001:db8::10]"},
		{`[{"jobs": ["db-*"], "addresses": ["192.0.2.10"]}, {"addresses": ["192.0.2.11"]}]`, prod, "[192.0.2.10]"},
		{`[{"jobs": ["web"], "addresses": ["192.0.2.10"]}, {"addresses": ["192.0.2.11"]}]`, prod, "[192.0.2.11]"},
		{`[{"jobs": ["web"], "addresses": ["192.0.2.10"]}]`, prod, "[]"},
		{`[{"namespaces": ["prod"], "jobs": ["db-*"], "addresses": ["192.0.2.10"]}]`, dev, "[]"},
		{`[{"namespaces": ["!prod"], "addresses": ["192.0.2.10"]}]`, dev, "[192.0.2.10]"},
		{`[{"namespaces": ["!prod"], "addresses": ["192.0.2.10"]}]`, prod, "[]"},
		{`[{"namespaces": ["!prod"], "addresses": ["192.0.2.10"]}]`, Identity{}, "[]"}, // unknown is not another one
		{`[{"namespaces": [], "addresses": ["192.0.2.10"]}]`, prod, "[]"},
	} {
		s, err := egressOf(c.text)
		if got := fmt.Sprint(s.EgressAddress.Of(c.identity)); err != nil || got != c.want {
			t.Errorf("%s of %v: %s, %v, want %s", c.text, c.identity, got, err, c.want)
		}
	}
	s, err := egressOf(`[{"jobs": ["a"], "addresses": ["192.0.2.10", "2001:db8::10"]}, {"addresses": ["192.0.2.10"]}]`)
	if got := s.Describe(); err != nil || got != "egress addresses 192.0.2.10,2001:db8::10" || s.Restrict() {
		t.Errorf("described as %q, restricts %t, %v", got, s.Restrict(), err)
	}
}

// TestEgressRefuses: what cannot be an address that packets leave with, and rules that are written wrong.
func TestEgressRefuses(t *testing.T) {
	for _, text := range []string{
		`""`, `1`, `[]`, `{}`, `true`, `"192.0.2.10/24"`, `["192.0.2.10", "192.0.2.11"]`, `"0.0.0.0"`, `"::"`, `"127.0.0.1"`, `"fe80::1%eth0"`, `"fe80::1"`, `"224.0.0.1"`, `"::ffff:192.0.2.1"`,
		`[""]`, `[null]`, `[{"addresses": [""]}]`, `[{"addresses": [null]}]`,
		`[{}]`, `[{"addresses": []}]`, `[{"job": ["a"], "addresses": ["192.0.2.10"]}]`, `[{"Jobs": ["a"], "addresses": ["192.0.2.10"]}]`,
		`[{"jobs": ["a"], "jobs": ["b"], "addresses": ["192.0.2.10"]}]`, `[{"jobs": [""], "addresses": ["192.0.2.10"]}]`, `["192.0.2.10", {"addresses": ["192.0.2.10"]}]`,
	} {
		if _, err := egressOf(text); err == nil || !strings.Contains(err.Error(), "egressAddress") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestCheckEgress: only this process makes rules with the address, and only where packets are masqueraded.
func TestCheckEgress(t *testing.T) {
	inProcess, executed := func(*cniconf.Network) error { return nil }, func(*cniconf.Network) error { return errors.New("a reason") }
	const with = `{"egressAddress": "192.0.2.10"}`
	for _, c := range []struct {
		options, plugin string
		why             func(*cniconf.Network) error
		want            string
	}{
		{with, `{"type": "bridge", "ipMasq": true}`, inProcess, ""},
		{with, `{"type": "ptp", "ipMasq": true}`, inProcess, ""},
		{with, `{"type": "bridge"}`, inProcess, "ipMasq"},
		{with, `{"type": "macvlan", "ipMasq": true}`, inProcess, "ipMasq"},
		{with, `{"type": "bridge", "ipMasq": true}`, executed, "a reason"},
		{with, `{"type": "bridge", "ipMasq": true, "egressAddress": ["192.0.2.10"]}`, inProcess, "no effect there"},
		{`{}`, `{"type": "bridge"}`, executed, ""},
	} {
		err := CheckEgress(network(t, "web", c.options, c.plugin), c.why)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if !slices.Contains(restricting, "egressAddress") {
		t.Error("egressAddress in a plugin is accepted")
	}
}
