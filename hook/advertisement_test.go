// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
)

// edit replaces a text in the conflist of a network.
func (m *memory) edit(t *testing.T, network, before, after string) {
	t.Helper()
	path := filepath.Join(m.confDir, network+".conflist")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), before, after, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAcceptRA: an interface ignores router advertisements unless its network has the
// option. In a namespace of its own, the engine sets that before an interface exists.
func TestAcceptRA(t *testing.T) {
	for name, test := range map[string]struct {
		networks string
		given    bool
		want     []string
	}{
		"ignored":                    {"plain,other", false, []string{"default=false", "net1=false", "net2=false"}},
		"one accepts":                {"plain,slaac", false, []string{"default=true", "net1=false", "net2=true"}},
		"another runtime's":          {"plain,slaac", true, []string{"net1=false", "net2=true"}},
		"left to a plugin":           {"tuned", false, []string{"default=false"}},
		"the option beside a plugin": {"both", true, []string{"net1=true"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, nil)
			for _, network := range []string{"plain", "other", "slaac"} {
				m.network(t, network, "bridge")
			}
			for _, network := range []string{"tuned", "both"} {
				m.network(t, network, "bridge", `{"type": "tuning", "sysctl": {"net/ipv6/conf/IFNAME/accept_ra": "1"}}`)
			}
			for _, network := range []string{"slaac", "both"} {
				m.edit(t, network, `"plugins"`, `"allocnet": {"acceptRA": true}, "plugins"`)
			}
			networks, err := selection.Parse(test.networks)
			if err != nil {
				t.Fatal(err)
			}
			r := Request{ID: "w1", Networks: networks}
			if test.given {
				r.Netns = m.namespaces.create("/run/netns/w1")
			}
			a, err := m.Setup(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			got := slices.Sorted(slices.Values(m.namespaces.at[a.Netns].acceptRA)) // both attach at the same time
			if !slices.Equal(got, test.want) {
				t.Errorf("set %v, want %v", got, test.want)
			}
			requireAcceptRARepaired(t, m, a)
		})
	}
}

// requireAcceptRARepaired: a task turns what its interfaces do around, and a repair turns it back where
// allocnet has set it, and takes no addresses from them.
func requireAcceptRARepaired(t *testing.T, m *memory, a *Allocation) {
	t.Helper()
	ns := m.namespaces.at[a.Netns]
	set := slices.DeleteFunc(slices.Clone(ns.acceptRA), func(s string) bool { return strings.HasPrefix(s, netns.NewInterfaces) })
	for _, s := range set {
		name, value, _ := strings.Cut(s, "=")
		ns.acceptRA = append(ns.acceptRA, fmt.Sprintf("%s=%t", name, value != "true"))
	}
	o, err := m.env.Begin(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer o.End()
	for i := range o.Record.Attachments {
		lacks, err := o.WorkIn(ns).Lacks(t.Context(), o.Record.Attachments[i])
		for _, l := range lacks {
			err = errors.Join(err, l.Make())
		}
		if err != nil || len(lacks) != len(set)/len(o.Record.Attachments) {
			t.Errorf("missing %v, %v", lacks, err)
		}
	}
	for i := range set {
		set[i] += kept
	}
	if got := ns.acceptRA[len(ns.acceptRA)-len(set):]; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(set))) {
		t.Errorf("repaired to %v, want %v", got, set)
	}
}

// TestCheckDefaultRoutes compares the default routes with the record.
func TestCheckDefaultRoutes(t *testing.T) {
	route := func(iface, gateway string) netns.Route {
		return netns.Route{Interface: iface, Gateway: netip.MustParseAddr(gateway)}
	}
	own := route("net1", "10.0.0.254")
	for name, test := range map[string]struct {
		routes []netns.Route
		want   string
	}{
		"as recorded":             {[]netns.Route{own}, ""},
		"another family's":        {[]netns.Route{own, route("lo", "fe80::1")}, ""},
		"a second one":            {[]netns.Route{own, route("net2", "fe80::1")}, "as net2 of allocation w1: default route via fe80::1 is not that of a network"},
		"another gateway":         {[]netns.Route{route("net1", "10.0.0.253")}, "as net1 of allocation w1: missing: default route via 10.0.0.254 of net1: to make it: allocnet repair w1"},
		"none":                    {nil, "as net1 of allocation w1: missing: default route via 10.0.0.254 of net1: to make it: allocnet repair w1"},
		"of an interface besides": {[]netns.Route{own, route("eth0", "192.0.2.1")}, "default route via 192.0.2.1 dev eth0 is beside that via 10.0.0.254 dev net1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := routed(t)
			path := m.namespaces.create("/run/netns/w1")
			if _, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named("a", "c")}); err != nil {
				t.Fatal(err)
			}
			m.namespaces.at[path].routes = test.routes
			checked, err := m.Check(t.Context(), "w1")
			if got := slices.ContainsFunc(checked, func(c Checked) bool { return c.Repairable }); got != (name == "none") { // a foreign route is not repaired
				t.Errorf("repairable: %t", got)
			}
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err := m.Verify(t.Context(), Verification{ID: "w1", Netns: path, Interface: "net1"}); err != nil {
				t.Errorf("the runtime would delete the namespace: %v", err)
			}
		})
	}
}
