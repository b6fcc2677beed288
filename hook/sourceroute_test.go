// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/internal/errdefs"
)

const sourceOption = `"allocnet": {"routing": "source"}, "plugins"`

// sources returns the routing tables of a namespace, such as "20001 net1: 10.0.0.1;
// 10.0.0.0/24, 0.0.0.0/0 via 10.0.0.254".
func (m *memory) sources(path string) string {
	m.namespaces.mu.Lock()
	defer m.namespaces.mu.Unlock()
	var all []string
	for _, s := range m.namespaces.at[path].sources {
		var addresses, routes []string
		for _, a := range s.Addresses {
			addresses = append(addresses, a.String())
		}
		for _, r := range s.Routes {
			routes = append(routes, r.String())
		}
		all = append(all, fmt.Sprintf("%d %s: %s; %s", s.Table, s.Interface, strings.Join(addresses, ", "), strings.Join(routes, ", ")))
	}
	return strings.Join(all, "\n")
}

// TestSourceRouting: each attachment has a table of its own, with a number that is free.
// The table goes with the attachment.
func TestSourceRouting(t *testing.T) {
	m := routed(t)
	for _, network := range []string{"a", "b"} {
		m.edit(t, network, `"plugins"`, sourceOption)
	}
	path := m.namespaces.create("/run/netns/w1")
	want := func(when string, tables ...string) {
		t.Helper()
		if got := m.sources(path); got != strings.Join(tables, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", when, got, strings.Join(tables, "\n"))
		}
	}
	const (
		first  = "20001 net1: 10.0.0.1; 10.0.0.0/24, 0.0.0.0/0 via 10.0.0.254"
		second = "20002 net3: 10.1.0.1; 10.1.0.0/24, 0.0.0.0/0 via 10.1.0.254"
	)
	if _, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named("a", "c")}); err != nil {
		t.Fatal(err)
	}
	want("Setup", first)
	if _, err := m.Extend(t.Context(), Request{ID: "w1", Networks: named("b")}); err != nil {
		t.Fatal(err)
	}
	want("Attach", first, second)
	if _, err := m.Check(t.Context(), "w1"); err != nil {
		t.Error(err)
	}
	m.namespaces.at[path].sources = m.namespaces.at[path].sources[:1]
	_, err := m.Check(t.Context(), "w1")
	if err == nil || !strings.Contains(err.Error(), "as net3 of allocation w1: missing: table 20002: ") || !inspect.IsDamage(err) {
		t.Errorf("without a table: %v", err)
	}
	if err := m.Verify(t.Context(), Verification{ID: "w1", Netns: path, Interface: "net1"}); err != nil {
		t.Errorf("the runtime would delete the namespace: %v", err)
	}
	if err := m.Detach(t.Context(), "w1", "net3"); err != nil {
		t.Fatal(err)
	}
	want("Detach", first)
	if err := m.Teardown(t.Context(), "w1"); err != nil {
		t.Fatal(err)
	}
	want("Teardown")
}

// TestSourceRoutingFails: a network without an address or a gateway, and a table that
// cannot be made, are errors, and nothing is left. A table that cannot be removed does
// not keep the network attached.
func TestSourceRoutingFails(t *testing.T) {
	broken := errors.New("netlink: interrupted")
	for name, test := range map[string]struct {
		network string
		failing string
		result  string
		want    string
	}{
		"no gateway":              {network: "c", want: `routing "source": the network's plugins report no gateway for 10.0.0.1`},
		"no address":              {network: "a", result: `{"cniVersion": "1.1.0"}`, want: `routing "source": the network's plugins report no address`},
		"not made":                {network: "a", failing: "AddSourceRoutes", want: "netlink: interrupted"},
		"not removed":             {network: "a", failing: "RemoveSourceRoutes"},
		"of another's address":    {network: "a", result: `{"cniVersion": "1.1.0", "interfaces": [{"name": "other"}], "ips": [{"interface": 0, "address": "10.0.0.1/24", "gateway": "10.0.0.254"}]}`, want: "report no address"},
		"address of no interface": {network: "a", result: `{"cniVersion": "1.1.0", "ips": [{"address": "10.0.0.1/24", "gateway": "10.0.0.254"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			m := routed(t)
			m.edit(t, test.network, `"plugins"`, sourceOption)
			if answer := m.exec.answer; test.result != "" {
				m.exec.answer = func(ctx context.Context, c fakeCall) (bool, []byte, error) {
					if c.Verb == "ADD" {
						return true, []byte(test.result), nil
					}
					return answer(ctx, c)
				}
			}
			m.namespaces.fail = func(op, _ string) error {
				if op == test.failing {
					return broken
				}
				return nil
			}
			path := m.namespaces.create("/run/netns/w1")
			_, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named(test.network)})
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err := m.Teardown(t.Context(), "w1"); err != nil || len(recorded(t, m.Engine)) > 0 {
				t.Errorf("Teardown: %v, on record are %v", err, recorded(t, m.Engine))
			}
			if got := m.sources(path); test.failing == "" && got != "" {
				t.Errorf("left is %s", got)
			}
		})
	}
}

// TestSourceRoutingPlugin: a chain whose CHECK always fails is refused, with what to use
// in its place.
func TestSourceRoutingPlugin(t *testing.T) {
	for name, test := range map[string]struct {
		plugins []string
		edit    [2]string
		refused bool
	}{
		"after bridge":       {plugins: []string{"bridge", "sbr"}, refused: true},
		"last of a chain":    {plugins: []string{"macvlan", "tuning", "sbr"}, refused: true},
		"without CHECK":      {plugins: []string{"bridge", "sbr"}, edit: [2]string{`"plugins"`, `"disableCheck": true, "plugins"`}},
		"a version below it": {plugins: []string{"bridge", "sbr"}, edit: [2]string{"1.1.0", "0.3.1"}},
		"another's plugin":   {plugins: []string{"fabric", "sbr"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, nil)
			m.network(t, "multihomed", test.plugins...)
			m.edit(t, "multihomed", test.edit[0], test.edit[1])
			_, err := m.Setup(t.Context(), Request{ID: "w1", Networks: named("multihomed")})
			if !test.refused {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || errdefs.Of(err) != errdefs.Refused || !strings.Contains(err.Error(), `set "allocnet": {"routing": "source"}, or set "disableCheck": true`) {
				t.Errorf("got %v", err)
			}
			if calls := m.exec.names(); len(calls) > 0 {
				t.Errorf("plugins ran: %v", calls)
			}
		})
	}
}
