// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
)

// routed returns an engine with networks a, b and c. The plugins of a and b bring the
// gateways 10.0.0.254 and 10.1.0.254 and default routes by them, that of c has none.
func routed(t *testing.T) *memory {
	t.Helper()
	m := newMemory(t, func(c *Config) { c.Cleaner = cleanerFunc(nothingLeft) })
	gateways := map[string]string{"with-a": "10.0.0.254", "with-b": "10.1.0.254"}
	for _, name := range []string{"a", "b", "c"} {
		m.network(t, name, "with-"+name)
	}
	m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
		gateway, ok := gateways[c.Plugin]
		if c.Verb != "ADD" || !ok {
			return false, nil, nil
		}
		iface, path := c.Environ["CNI_IFNAME"], c.Environ["CNI_NETNS"]
		address := netip.MustParsePrefix(strings.TrimSuffix(gateway, "254") + "1/24")
		m.namespaces.add(path, netns.Interface{Name: iface, MAC: "02:00:00:00:00:01", MTU: 1500, Up: true, Addresses: []netip.Prefix{address}})
		ns := m.namespaces.at[path]
		ns.routes = slices.Insert(ns.routes, 0, netns.Route{Interface: iface, Gateway: netip.MustParseAddr(gateway)}) // the kernel prefers the newest
		return true, fmt.Appendf(nil, `{"cniVersion": "1.1.0", "interfaces": [{"name": "veth0000000a", "mac": "02:00:00:00:00:99"}, {"name": %q, "mac": "02:00:00:00:00:01", "sandbox": %q}],
			"ips": [{"interface": 1, "address": %q, "gateway": %q}], "routes": [{"dst": "0.0.0.0/0", "gw": %q}]}`, iface, path, address, gateway, gateway), nil
	}
	return m
}

// defaultRoutes returns those of a namespace, such as "eth0 by 10.0.0.254".
func (m *memory) defaultRoutes(path string) string {
	m.namespaces.mu.Lock()
	defer m.namespaces.mu.Unlock()
	var routes []string
	for _, r := range m.namespaces.at[path].routes {
		routes = append(routes, r.Interface+" by "+r.Gateway.String())
	}
	return strings.Join(routes, ", ")
}

// TestDefaultRoute: one default route for each family. An attachment has it that asks
// for it, else the namespace's own stays, else the first attachment's counts. The
// recorded results say so, because CHECK compares them with the namespace.
func TestDefaultRoute(t *testing.T) {
	primary := &selection.Element{Name: "a", Interface: "eth0"}
	asking := func(name string, gateways ...string) selection.Element {
		return selection.Element{Name: name, DefaultRoute: append([]string{}, gateways...)}
	}
	for name, test := range map[string]struct {
		primary  *selection.Element
		networks []selection.Element
		before   string
		want     string
		detached string // after net1 is gone
		refused  string
	}{
		"of the first":            {primary, named("b"), "", "eth0 by 10.0.0.254", "eth0 by 10.0.0.254", ""},
		"of the one that has one": {nil, named("c", "b"), "", "net2 by 10.1.0.254", "net2 by 10.1.0.254", ""},
		"the plugin's, asked for": {primary, []selection.Element{asking("b")}, "", "net1 by 10.1.0.254", "eth0 by 10.0.0.254", ""},
		"a gateway by its name":   {primary, []selection.Element{asking("c", "10.9.0.1")}, "", "net1 by 10.9.0.1", "eth0 by 10.0.0.254", ""},
		"the namespace's":         {nil, named("a", "b"), "192.0.2.1", "lo by 192.0.2.1", "lo by 192.0.2.1", ""},
		"moved from another's":    {nil, []selection.Element{asking("a"), {Name: "c"}}, "192.0.2.1", "net1 by 10.0.0.254", "lo by 192.0.2.1", ""},
		"without a gateway":       {primary, []selection.Element{asking("c")}, "", "", "", "reports no gateway"},
		"two that ask":            {nil, []selection.Element{asking("a"), asking("b")}, "", "", "", "one for each of IPv4 and IPv6"},
	} {
		t.Run(name, func(t *testing.T) {
			m := routed(t)
			r := Request{ID: "w1", Primary: test.primary, Networks: test.networks}
			if test.primary == nil {
				r.Netns = m.namespaces.create("/run/netns/w1")
				m.namespaces.add(r.Netns, loopback)
			}
			if test.before != "" {
				m.namespaces.at[r.Netns].routes = []netns.Route{{Interface: "lo", Gateway: netip.MustParseAddr(test.before)}}
			}
			a, err := m.Setup(t.Context(), r)
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) || len(recorded(t, m.Engine)) > 0 {
					t.Errorf("got %v, want %q", err, test.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := m.defaultRoutes(a.Netns); got != test.want {
				t.Errorf("default routes %q, want %q", got, test.want)
			}
			checkRoutesRecorded(t, a, test.want)
			if err := m.Detach(t.Context(), "w1", "net1"); err != nil {
				t.Fatal(err)
			}
			if got := m.defaultRoutes(a.Netns); got != test.detached {
				t.Errorf("after Detach: default routes %q, want %q", got, test.detached)
			}
			if a, err = m.Status(t.Context(), "w1"); err != nil {
				t.Fatal(err)
			}
			checkRoutesRecorded(t, a, test.detached)
		})
	}
}

// checkRoutesRecorded: the attachment that has the default route says so, and no other.
func checkRoutesRecorded(t *testing.T, a *Allocation, route string) {
	t.Helper()
	for _, attachment := range a.Attachments {
		has := strings.HasPrefix(route, attachment.Interface+" by ")
		if strings.Contains(string(attachment.Result), `"0.0.0.0/0"`) != has {
			t.Errorf("%s: the default route is %q, and the result has %s", attachment.Interface, route, attachment.Result)
		}
		if (len(attachment.Gateways) > 0) != has {
			t.Errorf("%s: gateways %v", attachment.Interface, attachment.Gateways)
		}
	}
}

// TestDefaultRouteOfPending: DEL removes an interface that has the default route, and then
// fails. The allocation has its earlier default route, although the attachment is pending.
func TestDefaultRouteOfPending(t *testing.T) {
	m := routed(t)
	m.env.Config.Cleaner = NoCleaner
	path := m.namespaces.create("/run/netns/w1")
	m.namespaces.add(path, netns.Interface{Name: "eth0", Up: true})
	m.namespaces.at[path].routes = []netns.Route{{Interface: "eth0", Gateway: netip.MustParseAddr("192.0.2.1")}}
	if _, err := m.Extend(t.Context(), Request{ID: "w1", Netns: path, Networks: []selection.Element{{Name: "a", Interface: "net1", DefaultRoute: []string{}}}}); err != nil {
		t.Fatal(err)
	}
	if got := m.defaultRoutes(path); got != "net1 by 10.0.0.254" {
		t.Fatalf("default routes %q", got)
	}
	m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
		m.namespaces.removeInterface(path, c.Environ["CNI_IFNAME"])
		return true, nil, errors.New("the lease is busy")
	}
	for range 2 {
		if err := m.Detach(t.Context(), "w1", "net1"); err == nil {
			t.Fatal("DEL failed, and Detach did not")
		}
		if got := m.defaultRoutes(path); got != "eth0 by 192.0.2.1" {
			t.Errorf("default routes %q, want the earlier one", got)
		}
	}
}

// TestNamespaceFails: every question to a namespace may fail. Then the attachments are
// undone, no namespace remains open, and the error has the cause.
func TestNamespaceFails(t *testing.T) {
	broken := errors.New("netlink: interrupted")
	for _, op := range []string{"New", "Mount", "Interfaces", "SetLoopbackUp", "SetAcceptRA", "UsedTables", "RoutesOf", "AddSourceRoutes", "DefaultRoutes", "SetDefaultRoute"} {
		for n := 1; ; n++ {
			m := routed(t)
			m.edit(t, "b", `"plugins"`, `"allocnet": {"routing": "source"}, "plugins"`)
			calls := 0
			m.namespaces.fail = func(asked, _ string) error {
				if asked == op {
					if calls++; calls == n {
						return broken
					}
				}
				return nil
			}
			_, err := m.Setup(t.Context(), Request{ID: "w1", Primary: &selection.Element{Name: "a", Interface: "eth0"}, Networks: []selection.Element{{Name: "b", DefaultRoute: []string{}}}})
			if calls < n { // it is not asked so often
				if n == 1 || err != nil {
					t.Errorf("%s was asked %d times: %v", op, calls, err)
				}
				break
			}
			if !errors.Is(err, broken) {
				t.Errorf("%s, time %d: %v, want the cause", op, n, err)
			}
			if ids := recorded(t, m.Engine); len(ids) > 0 || len(m.namespaces.at) > 0 {
				t.Errorf("%s, time %d: on record are %v, namespaces are %v", op, n, ids, m.namespaces.at)
			}
			if m.namespaces.handles != 0 {
				t.Errorf("%s, time %d: %d namespaces are still open", op, n, m.namespaces.handles)
			}
		}
	}
}

// asking is an attachment of a task that asks for the default route.
func asking(network, iface string) Request {
	return Request{ID: "w1", Netns: "/run/netns/w1", Task: "web", Networks: []selection.Element{{Name: network, Interface: iface, DefaultRoute: []string{}}}}
}

// replaced returns an engine with allocation w1, whose default route was that of eth0, then
// of net1, and is that of net2.
func replaced(t *testing.T) *memory {
	t.Helper()
	m := routed(t)
	m.env.Config.Cleaner = NoCleaner
	path := m.namespaces.create("/run/netns/w1")
	m.namespaces.add(path, netns.Interface{Name: "eth0", Up: true})
	m.namespaces.at[path].routes = []netns.Route{{Interface: "eth0", Gateway: netip.MustParseAddr("192.0.2.1")}}
	for _, r := range []Request{asking("a", "net1"), asking("b", "net2")} {
		if _, err := m.Extend(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// TestReusedInterfaceHasNoOldRoute: a route on an interface that was detached is not
// restored, also if another attachment has its name by then, and no matter in which call
// the interface was removed.
func TestReusedInterfaceHasNoOldRoute(t *testing.T) {
	detach := func(iface string) func(*memory) error {
		return func(m *memory) error { return m.Detach(t.Context(), "w1", iface) }
	}
	release := func(m *memory) error { return m.Release(t.Context(), "w1", "web") }
	for name, test := range map[string]struct {
		first, last func(*memory) error
		stuck       string // until the last call
	}{
		"detached before":              {detach("net1"), detach("net2"), ""},
		"released with one that stays": {release, release, "DEL with-b net2"},
	} {
		t.Run(name, func(t *testing.T) {
			m := replaced(t)
			plugin, busy := m.exec.answer, errors.New("the device is busy")
			m.exec.answer = func(ctx context.Context, c fakeCall) (bool, []byte, error) {
				if c.String() == test.stuck {
					return true, nil, busy
				}
				return plugin(ctx, c)
			}
			if err := test.first(m); (err != nil) != (test.stuck != "") {
				t.Fatal(err)
			}
			other := Request{ID: "w1", Netns: "/run/netns/w1", Networks: []selection.Element{{Name: "c", Interface: "net1"}}}
			if _, err := m.Extend(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			m.exec.answer = plugin
			if err := test.last(m); err != nil {
				t.Fatal(err)
			}
			if got := m.defaultRoutes("/run/netns/w1"); got != "eth0 by 192.0.2.1" {
				t.Errorf("default routes %q, want that of eth0", got)
			}
		})
	}
}

// TestNextRouteRestored: when the kernel accepts a previous route no more, the one before
// that is restored. An interface that is being removed gets none.
func TestNextRouteRestored(t *testing.T) {
	for name, prepare := range map[string]func(*memory) error{
		"unreachable": func(m *memory) error {
			refused := errors.New("network is unreachable")
			m.namespaces.fail = func(op, _ string) error {
				if op != "SetDefaultRoute" {
					return nil
				}
				defer func() { refused = nil }()
				return refused
			}
			return nil
		},
		"removed": func(m *memory) error {
			plugin := m.exec.answer
			m.exec.answer = func(ctx context.Context, c fakeCall) (bool, []byte, error) {
				if c.String() == "DEL with-a net1" {
					return true, nil, errors.New("the device is busy")
				}
				return plugin(ctx, c)
			}
			if m.Detach(t.Context(), "w1", "net1") == nil {
				return errors.New("DEL failed, and Detach did not")
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := replaced(t)
			if err := prepare(m); err != nil {
				t.Fatal(err)
			}
			if err := m.Detach(t.Context(), "w1", "net2"); err != nil {
				t.Fatal(err)
			}
			if got := m.defaultRoutes("/run/netns/w1"); got != "eth0 by 192.0.2.1" {
				t.Errorf("default routes %q, want that of eth0", got)
			}
		})
	}
}
