// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
)

// reattach attaches again what only comes back so.
func reattach(w *world) error {
	drifts, err := w.RepairAttachments(w.ctx, RepairRequest{Mode: RepairReattach})
	for _, d := range drifts {
		err = errors.Join(err, d.Err)
	}
	return err
}

// inNamespace is what a namespace has, as text: interfaces with addresses and MAC, routes, tables.
func inNamespace(w *world, path string) string {
	ns := w.namespaces.at[path]
	interfaces := slices.SortedFunc(slices.Values(ns.interfaces), func(a, b netns.Interface) int { return strings.Compare(a.Name, b.Name) })
	return fmt.Sprintf("%+v\n%v\n%+v", interfaces, ns.routes, ns.sources)
}

// recordedStatusOf is what is on record of an allocation, as text.
func recordedStatusOf(w *world, id string) string {
	w.t.Helper()
	a, err := w.Status(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range a.Attachments {
		a.Attachments[i].Attempts = 0
	}
	text, err := json.MarshalIndent(a, "", " ")
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// damagedWorld has an allocation, one of whose interfaces is gone, and tells what was there.
func damagedWorld(t *testing.T, i installation) (w *world, before string) {
	t.Helper()
	w = newWorld(t, i)
	if err := setup(runtimeRequest)(w); err != nil {
		t.Fatal(err)
	}
	before = inNamespace(w, runtimeNetns) + recordedStatusOf(w, "runtime")
	w.namespaces.removeInterface(runtimeNetns, "net2")
	w.restart()
	return w, before
}

// requireAsBefore: the allocation is as it was before the damage.
func requireAsBefore(t *testing.T, w *world, before string) {
	t.Helper()
	if after := inNamespace(w, runtimeNetns) + recordedStatusOf(w, "runtime"); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	w.wantRecorded()
}

// bothExecutors runs a test with networks that are executed as plugins, and in process.
func bothExecutors(t *testing.T, test func(t *testing.T, i installation)) {
	for name, inProcess := range map[string]bool{"plugins": false, "in process": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := install(t)
			i.inProcess = inProcess
			test(t, i)
		})
	}
}

// TestReattach: an attachment whose interface is gone is attached again as it was. Only the mode does
// it, once, and plugins of other attachments are not called.
func TestReattach(t *testing.T) {
	bothExecutors(t, func(t *testing.T, i installation) {
		w, before := damagedWorld(t, i)
		for _, mode := range []RepairMode{RepairReport, RepairRules} {
			if drifts, err := w.RepairAttachments(t.Context(), RepairRequest{Mode: mode}); err != nil || len(drifts) != 1 || !drifts[0].Open() || len(drifts[0].Unrepairable) != 1 {
				t.Errorf("%s: %+v, %v", mode, drifts, err)
			}
		}
		drifts, err := w.RepairAttachments(t.Context(), RepairRequest{Mode: RepairReattach, Defer: true})
		if err != nil || len(drifts) != 1 || drifts[0].Skipped != SkippedReattachment || slices.ContainsFunc(w.killer.seen, func(e string) bool { return strings.HasPrefix(e, "DEL") }) {
			t.Errorf("deferred: %+v, %v, %q", drifts, err, w.killer.seen)
		}
		drifts, err = w.RepairAttachments(t.Context(), RepairRequest{Mode: RepairReattach})
		if err != nil || len(drifts) != 1 || !drifts[0].Repaired || !drifts[0].Reattached {
			t.Errorf("%+v, %v", drifts, err)
		}
		requireAsBefore(t, w, before)
		for _, effect := range w.killer.seen {
			if strings.HasSuffix(effect, " net1") && (strings.HasPrefix(effect, "DEL") || strings.HasPrefix(effect, "commit DEL")) {
				t.Errorf("another attachment: %s", effect)
			}
		}
		if drifts, err := w.RepairAttachments(t.Context(), RepairRequest{Mode: RepairReattach}); err != nil || len(drifts) > 0 {
			t.Errorf("again: %+v, %v", drifts, err)
		}
	})
}

// afterKilledReattachment is how a host goes on after a process died that attached something again.
var afterKilledReattachment = map[string]func(w *world) error{
	"reattach":          reattach,
	"GC, reattach":      inTurn(collect, reattach),
	"detach":            func(w *world) error { return w.Detach(w.ctx, "runtime", "net2") },
	"Setup, reattach":   inTurn(setup(runtimeRequest), reattach),
	"Teardown":          teardown("runtime"),
	"without namespace": func(w *world) error { w.lose(runtimeNetns); return collect(w) },
}

// TestKilledReattachment: wherever a process dies that attaches something again, the next one does so,
// or removes all of it. Until then no garbage collection removes the allocation.
func TestKilledReattachment(t *testing.T) {
	bothExecutors(t, func(t *testing.T, i installation) {
		w, before := damagedWorld(t, i)
		ways := map[string]func(t *testing.T){}
		for after, next := range afterKilledReattachment {
			ways[after] = func(t *testing.T) {
				if err := next(w); err != nil {
					t.Error(err)
				}
				w.wantRecorded()
				if strings.HasSuffix(after, "reattach") {
					requireAsBefore(t, w, before)
				}
				if err := w.Teardown(t.Context(), "runtime"); err != nil {
					t.Error(err)
				}
				w.wantNothing()
			}
		}
		dieAtEach(t, w, reattach, ways)
	})
}

// TestReattachmentFails: when ADD fails, nothing is left of the attachment but its record, and the next
// repair attaches it. GC leaves the allocation alone, which can be detached.
func TestReattachmentFails(t *testing.T) {
	bothExecutors(t, func(t *testing.T, i installation) {
		for _, end := range []string{"reattach", "Teardown"} {
			w, before := damagedWorld(t, i)
			w.failing["ADD tuning net2"] = errStuck
			for range 2 {
				if err := errors.Join(reattach(w), collect(w)); !errors.Is(err, errStuck) {
					t.Fatalf("%v, want %v", err, errStuck)
				}
				for object := range w.objects {
					if strings.HasSuffix(object, " net2") {
						t.Errorf("%s is left", object)
					}
				}
			}
			if missing, _ := requireDrifts(t, w, RepairRequest{Mode: RepairReport}); len(missing) != 1 || !strings.Contains(missing[0], "is gone") && !strings.Contains(missing[0], "interface net2") {
				t.Errorf("missing is %q", missing)
			}
			if status := recordedStatusOf(w, "runtime"); strings.Count(status, "it was detached to be attached again, which is not done") != 1 || strings.Count(status, `"phase": "reattaching"`) != 1 {
				t.Errorf("status:\n%s", status)
			}
			clear(w.failing)
			if end == "reattach" {
				if err := reattach(w); err != nil {
					t.Error(err)
				}
				requireAsBefore(t, w, before)
			}
			if err := w.Teardown(t.Context(), "runtime"); err != nil {
				t.Error(err)
			}
			w.wantNothing()
		}
	})
}

// TestReattachOtherAddress: an attachment that would get another address than it had is not attached, and
// only what it had is kept.
func TestReattachOtherAddress(t *testing.T) {
	m := newMemory(t, nil)
	m.network(t, "allocnet-ipam", "allocnet-ipam") // is installed
	m.network(t, "web", `{"type": "bridge", "ipam": {"type": "allocnet-ipam"}}`)
	path := m.namespaces.create("/run/netns/w1")
	if _, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named("web")}); err != nil {
		t.Fatal(err)
	}
	m.namespaces.removeInterface(path, "net1")
	added := len(m.exec.calls)
	drifts := requireRepair(t, m, RepairRequest{Mode: RepairReattach})
	var keeping []string
	for _, c := range m.exec.calls[added:] {
		keeping = append(keeping, fmt.Sprint(c.Verb, " ", strings.Contains(string(c.Stdin), `"allocnet":{"keepAddresses":true}`)))
	}
	if got := strings.Join(keeping, ", "); !strings.HasPrefix(got, "DEL true, ") || !strings.HasSuffix(got, ", DEL false") {
		t.Errorf("addresses are kept: %s", got)
	}
	if len(drifts) != 1 || drifts[0].Err == nil || !strings.Contains(drifts[0].Err.Error(), "and it had 10.0.0.1/24") || !drifts[0].Open() {
		t.Errorf("%+v", drifts)
	}
	if got := m.namespaces.interfaces(path); len(got) > 0 {
		t.Errorf("the namespace has %v", got)
	}
}

// TestNotReattached: what a task has moved, or has put into the place of an interface, is left alone.
func TestNotReattached(t *testing.T) {
	for name, test := range map[string]struct {
		change func(m *memory, ns *fakeNamespace)
		want   string
	}{
		"another link has the MAC": {func(_ *memory, ns *fakeNamespace) { ns.interfaces[0].Name = "renamed" }, "renamed has the MAC of net1"},
		"another link has the address": {func(_ *memory, ns *fakeNamespace) {
			ns.interfaces[0].Name, ns.interfaces[0].MAC = "tap0", ""
		}, "tap0 has the address 10.0.0.1 of net1"},
		"another MAC": {func(_ *memory, ns *fakeNamespace) {
			ns.interfaces[0].MAC = "02:00:00:00:00:99"
		}, "is not the one which was attached, its MAC is 02:00:00:00:00:99"},
		"a port of a bridge": {func(_ *memory, ns *fakeNamespace) {
			ns.interfaces[0].Up, ns.interfaces[0].Master = false, 7
		}, "net1 is a port of another interface"},
		"another link is on it": {func(_ *memory, ns *fakeNamespace) {
			ns.interfaces[0].Up, ns.interfaces[0].Index = false, 7
			ns.interfaces = append(ns.interfaces, netns.Interface{Name: "macvtap0", Link: 7})
		}, "macvtap0 is on net1"},
		"in another namespace": {func(m *memory, ns *fakeNamespace) {
			ns.interfaces, m.host.links = nil, map[string]bool{"veth0000000a": true}
		}, "the host has its end veth0000000a of net1"},
		"in another namespace, with its end renamed": {func(m *memory, ns *fakeNamespace) {
			ns.interfaces, m.host.interfaces = nil, []netns.Interface{{Name: "tap0", Kind: "veth", MAC: "02:00:00:00:00:99"}}
		}, "the host has its end tap0 of net1"},
		"the plugin is gone": {func(m *memory, ns *fakeNamespace) {
			ns.interfaces, m.env.Config.PluginDirs = nil, []string{t.TempDir()}
		}, "bridge"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, nil)
			m.network(t, "web", "bridge")
			path := m.namespaces.create("/run/netns/w1")
			if _, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named("web")}); err != nil {
				t.Fatal(err)
			}
			requireNoPluginDirs(t, m, "w1")
			test.change(m, m.namespaces.at[path])
			m.exec.names() // are forgotten
			drifts := requireRepair(t, m, RepairRequest{Mode: RepairReattach})
			if len(drifts) != 1 || drifts[0].Err == nil || !strings.Contains(drifts[0].Err.Error(), test.want) || !drifts[0].Open() {
				t.Errorf("%+v, want an error with %q", drifts, test.want)
			}
			if calls := m.exec.names(); slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(c, "DEL") }) {
				t.Errorf("called %q", calls)
			}
		})
	}
}

// TestReattachKeepsDefaultRoutes: default routes of others stay, and those of the attachment are as they
// were, also where its plugins make others.
func TestReattachKeepsDefaultRoutes(t *testing.T) {
	for name, test := range map[string]struct {
		networks []selection.Element
		before   []netns.Route
		want     string
	}{
		"of another attachment": {named("a", "b"), nil, "net1 by 10.0.0.254, net1 by 10.0.0.254"},
		"that is asked for":     {[]selection.Element{{Name: "c"}, {Name: "b", DefaultRoute: []string{"10.1.0.9"}}}, nil, "net2 by 10.1.0.9"},
		"the namespace's":       {named("c", "b"), []netns.Route{{Interface: "lo", Gateway: netip.MustParseAddr("10.9.0.1")}}, "lo by 10.9.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := routed(t)
			path := m.namespaces.create("/run/netns/w1")
			ns := m.namespaces.at[path]
			ns.routes = test.before
			if _, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: test.networks}); err != nil {
				t.Fatal(err)
			}
			if strings.Count(test.want, "net1") == 2 { // with another metric
				ns.routes = append(ns.routes, ns.routes[0])
			}
			before := recordedStatusOf(&world{t: t, Engine: m.Engine}, "w1")
			m.namespaces.removeInterface(path, "net2")
			if drifts := requireRepair(t, m, RepairRequest{Mode: RepairReattach}); len(drifts) != 1 || !drifts[0].Repaired {
				t.Errorf("%+v", drifts)
			}
			if got := m.defaultRoutes(path); got != test.want {
				t.Errorf("default routes %q, want %q", got, test.want)
			}
			if after := recordedStatusOf(&world{t: t, Engine: m.Engine}, "w1"); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

// TestNotReattachedWithoutIPv6: IPv6 that a task has switched off stays off, with plugins that are unknown.
func TestNotReattachedWithoutIPv6(t *testing.T) {
	for _, off := range []bool{true, false} {
		m := newMemory(t, nil)
		m.network(t, "web", "bridge")
		path := m.namespaces.create("/run/netns/w1")
		m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
			if c.Verb != "ADD" {
				return false, nil, nil
			}
			m.namespaces.add(path, netns.Interface{Name: "net1", MAC: "02:00:00:00:00:01", Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix("fd00::2/64")}})
			return true, fmt.Appendf(nil, `{"cniVersion": "1.1.0", "interfaces": [{"name": "net1", "mac": "02:00:00:00:00:01", "sandbox": %q}], "ips": [{"interface": 0, "address": "fd00::2/64"}]}`, path), nil
		}
		if _, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named("web")}); err != nil {
			t.Fatal(err)
		}
		ns := m.namespaces.at[path]
		ns.interfaces[0].Addresses = nil
		if off {
			ns.withoutIPv6 = []string{"net1"}
		}
		drifts := requireRepair(t, m, RepairRequest{Mode: RepairReattach})
		refused := len(drifts) == 1 && drifts[0].Err != nil && strings.Contains(drifts[0].Err.Error(), "IPv6 is switched off on net1")
		if len(drifts) != 1 || drifts[0].Reattached == off || refused != off {
			t.Errorf("off %v: %+v", off, drifts)
		}
	}
}

// TestReattachedAcceptRA: the new interface ignores router advertisements, and loses what they gave it.
func TestReattachedAcceptRA(t *testing.T) {
	m := newMemory(t, nil)
	m.network(t, "web", "bridge")
	path := m.namespaces.create("/run/netns/w1")
	if _, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named("web")}); err != nil {
		t.Fatal(err)
	}
	m.namespaces.at[path].interfaces[0].Up, m.namespaces.at[path].acceptRA = false, nil
	if drifts := requireRepair(t, m, RepairRequest{Mode: RepairReattach}); len(drifts) != 1 || !drifts[0].Reattached {
		t.Errorf("%+v", drifts)
	}
	if got := m.namespaces.at[path].acceptRA; !slices.Equal(got, []string{"net1=false"}) {
		t.Errorf("set %q", got)
	}
}

// TestNotReattachedSwapped: a task has swapped the names of two interfaces.
func TestNotReattachedSwapped(t *testing.T) {
	m := newMemory(t, nil)
	m.network(t, "web", "bridge")
	m.network(t, "storage", "macvlan")
	path := m.namespaces.create("/run/netns/w1")
	if _, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named("web", "storage")}); err != nil {
		t.Fatal(err)
	}
	all := m.namespaces.at[path].interfaces
	all[0].Name, all[1].Name = all[1].Name, all[0].Name
	m.exec.names() // are forgotten
	drifts := requireRepair(t, m, RepairRequest{Mode: RepairReattach})
	if len(drifts) != 2 || !strings.Contains(fmt.Sprint(drifts[0].Err), "net2 has the MAC of net1") || !strings.Contains(fmt.Sprint(drifts[1].Err), "net1 has the MAC of net2") {
		t.Errorf("%+v", drifts)
	}
	if calls := m.exec.names(); slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(c, "DEL") }) {
		t.Errorf("called %q", calls)
	}
}

// TestNotReattachedInterrupted: wherever a process dies that attaches something again, an interface that
// a task then makes under the name is not removed.
func TestNotReattachedInterrupted(t *testing.T) {
	bothExecutors(t, func(t *testing.T, i installation) {
		w, _ := damagedWorld(t, i)
		found := w.keep(t)
		if err := reattach(w); err != nil {
			t.Fatal(err)
		}
		for at, effect := range w.killer.seen {
			found(t)
			w.killAt(at, true)
			_ = reattach(w) // a dead process returns nothing
			w.bury()
			w.namespaces.removeInterface(runtimeNetns, "net2")
			own := netns.Interface{Name: "net2", MAC: "02:00:00:00:00:99", Up: true}
			w.namespaces.add(runtimeNetns, own)
			_ = reattach(w) // it may have been completed
			if !strings.Contains(inNamespace(w, runtimeNetns), own.MAC) {
				t.Errorf("%s: the interface is gone", effect)
			}
		}
	})
}

// TestNotReattachedBesideRoute: an attachment that may make a default route is not attached again where
// another program has made one, also without a gateway. Those that were there before do not matter.
func TestNotReattachedBesideRoute(t *testing.T) {
	tunnel := netns.Route{Interface: "wg0"}
	for name, test := range map[string]struct {
		network string // that is attached again
		before  []netns.Route
		added   netns.Route
		want    string
	}{
		"a tunnel":                     {"a", nil, tunnel, "another default route, dev wg0"},
		"another gateway":              {"a", nil, netns.Route{Interface: "wg0", Gateway: netip.MustParseAddr("10.9.0.1")}, "via 10.9.0.1 dev wg0"},
		"of the other family":          {"a", nil, netns.Route{Interface: "wg0", Gateway: netip.MustParseAddr("fd00::1")}, ""},
		"network without one":          {"c", nil, tunnel, "another default route, dev wg0"}, // plugins that are unknown
		"network without one, earlier": {"c", []netns.Route{tunnel}, tunnel, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := routed(t)
			path := m.namespaces.create("/run/netns/w1")
			m.namespaces.at[path].routes = test.before
			if _, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named(test.network)}); err != nil {
				t.Fatal(err)
			}
			m.namespaces.removeInterface(path, "net1")
			m.namespaces.at[path].routes = []netns.Route{test.added}
			m.exec.names() // are forgotten
			drifts := requireRepair(t, m, RepairRequest{Mode: RepairReattach})
			refused := len(drifts) == 1 && drifts[0].Err != nil && strings.Contains(drifts[0].Err.Error(), test.want)
			if len(drifts) != 1 || drifts[0].Reattached == (test.want != "") || refused != (test.want != "") {
				t.Errorf("%+v, want %q", drifts, test.want)
			}
			if calls := m.exec.names(); test.want != "" && len(calls) > 0 {
				t.Errorf("called %q", calls)
			}
		})
	}
}

// TestReattachAfterChecks: of plugins that are unknown, a CHECK that fails is no proof. The agent
// attaches again when two in a row have failed, and one has passed before; an operator's call runs two.
func TestReattachAfterChecks(t *testing.T) {
	damage := &types.Error{Code: 999, Msg: "no route"}
	for name, test := range map[string]struct {
		answers []error
		want    string
	}{
		"none":                       {nil, "[]"},
		"passed":                     {[]error{nil}, "[]"},
		"failed once":                {[]error{nil, damage}, "open"},
		"failed once, then passed":   {[]error{nil, damage, nil}, "[]"},
		"failed twice":               {[]error{nil, damage, damage}, "reattached"},
		"failed, passed, and failed": {[]error{nil, damage, nil, damage}, "open"},
		"has always failed":          {[]error{damage, damage, damage}, "open"},
	} {
		t.Run(name, func(t *testing.T) {
			var answer error
			m := unknownPlugins(t, func(container string) error {
				if strings.HasPrefix(container, "a") {
					return answer
				}
				return nil
			})
			for _, answer = range test.answers {
				requireCheck(t, m, CheckRequest{})
			}
			got := "[]"
			for _, d := range requireRepair(t, m, RepairRequest{Mode: RepairReattach, LastChecks: true}) {
				got = map[bool]string{true: "reattached", false: "open"}[d.Reattached && d.Repaired]
			}
			if got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			if test.want == "reattached" { // its outcomes are those of another attachment
				requireCheck(t, m, CheckRequest{Every: time.Hour})
				requireCheck(t, m, CheckRequest{Every: time.Hour})
				if drifts := requireRepair(t, m, RepairRequest{Mode: RepairReattach, LastChecks: true}); len(drifts) != 1 || drifts[0].Reattached {
					t.Errorf("a CHECK that never passes: %+v", drifts)
				}
			}
		})
	}
	failures := 1
	m := unknownPlugins(t, func(string) error {
		if failures--; failures < 0 {
			return nil
		}
		return damage
	})
	if drifts := requireRepair(t, m, RepairRequest{IDs: []string{"a"}, Mode: RepairReattach}); len(drifts) > 0 {
		t.Errorf("a CHECK failed, and the next one passed: %+v", drifts)
	}
	failures = 2
	if drifts := requireRepair(t, m, RepairRequest{IDs: []string{"a"}, Mode: RepairReattach}); len(drifts) != 1 || !drifts[0].Reattached {
		t.Errorf("two CHECKs failed: %+v", drifts)
	}
}

// TestConfirmedDifference: an interface that is there, of unknown plugins, is looked at twice.
func TestConfirmedDifference(t *testing.T) {
	for _, back := range []bool{true, false} {
		m := unknownPlugins(t, func(string) error { return nil })
		ns := m.namespaces.at[m.env.Config.NetnsDir+"/a"]
		at := slices.IndexFunc(ns.interfaces, func(i netns.Interface) bool { return i.Name == "eth0" })
		ns.interfaces[at].Up = false
		m.env.Config.Pause = func(context.Context, time.Duration) error {
			ns.interfaces[at].Up = back
			return nil
		}
		drifts := requireRepair(t, m, RepairRequest{IDs: []string{"a"}, Mode: RepairReattach, LastChecks: true})
		if back && len(drifts) > 0 || !back && (len(drifts) != 1 || !drifts[0].Reattached) {
			t.Errorf("set up again %v: %+v", back, drifts)
		}
	}
}

// TestAskForFormer: plugins get the addresses and the MAC in the forms that they understand.
func TestAskForFormer(t *testing.T) {
	const mac = "IgnoreUnknown=true;MAC=02:00:00:00:00:01"
	for ipam, want := range map[string]struct{ args, cni, ips string }{
		"host-local":    {mac + ";IP=10.0.0.1", `"cni":{"ips":["10.0.0.1"],"other":1}`, `["10.0.0.1/24"]`},
		"allocnet-ipam": {mac, `"args":{"allocnet":{"keepAddresses":true},"cni":{"other":1}}`, ""},
		"other":         {mac + ";IP=10.0.0.1", `"cni":{"other":1}`, `["10.0.0.1/24"]`},
	} {
		t.Run(ipam, func(t *testing.T) {
			m := newMemory(t, nil)
			m.network(t, ipam, ipam) // is installed
			m.network(t, "web", fmt.Sprintf(`{"type": "bridge", "ipam": {"type": %q}, "args": {"cni": {"other": 1}}, "capabilities": {"ips": true, "mac": true}}`, ipam))
			path := m.namespaces.create("/run/netns/w1")
			if _, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named("web")}); err != nil {
				t.Fatal(err)
			}
			m.namespaces.removeInterface(path, "net1")
			m.exec.calls = nil
			_ = requireRepair(t, m, RepairRequest{Mode: RepairReattach})
			for _, c := range m.exec.calls {
				ips := want.ips == "" || strings.Contains(string(c.Stdin), `"ips":`+want.ips)
				if c.Environ["CNI_ARGS"] != want.args || !strings.Contains(string(c.Stdin), want.cni) || !ips || !strings.Contains(string(c.Stdin), `"mac":"02:00:00:00:00:01"`) {
					t.Errorf("%s with CNI_ARGS %s: %s, want %+v", c, c.Environ["CNI_ARGS"], c.Stdin, want)
				}
				if c.Verb == "ADD" { // what follows undoes it
					break
				}
			}
		})
	}
}
