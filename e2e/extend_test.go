// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// names returns the attachments as "network=interface" in their order.
func names(a *hook.Allocation) string {
	var list []string
	for _, n := range a.Attachments {
		list = append(list, n.Network+"="+n.Interface)
	}
	return strings.Join(list, " ")
}

// TestAttachToStanding adds networks to a running allocation, and detaches one of them.
func TestAttachToStanding(t *testing.T) {
	h := newHost(t)
	before := h.attach("e1", "--primary", "web", "--networks", "storage", "--publish", "8080:80/tcp")
	after := h.attach("e1", "--networks", "vlan@data0,peer")
	if got := names(after); got != "web=eth0 storage=net1 vlan=data0 peer=net2" {
		t.Errorf("attached %s", got)
	}
	if after.Attachments[0].MAC != before.Attachments[0].MAC || after.Attachments[1].MAC != before.Attachments[1].MAC {
		t.Error("what stood was attached anew")
	}
	again := h.attach("e1", "--networks", "vlan@data0,peer")
	if names(again) != names(after) || again.Attachments[3].MAC != after.Attachments[3].MAC {
		t.Errorf("the same again attached %s", names(again))
	}
	if routes := sandbox.Run(t, "ip", "-n", "e1", "route", "show", "default"); routes != "default via 10.88.0.1 dev eth0 \n" {
		t.Errorf("default routes: %q", routes)
	}
	h.must("check", "e1")
	serve(t, after.Netns, ":80", "e1 here")
	for _, url := range []string{"http://127.0.0.1:8080", "http://" + after.Attachments[3].Addresses[0].Addr().String()} {
		if text, err := get(url); err != nil || text != "e1 here" {
			t.Errorf("%s answers %q, %v", url, text, err)
		}
	}

	h.refuse(2, []string{"eth0", "attached with the allocation"}, "detach", "e1", "--interface", "eth0")
	h.refuse(2, []string{`"net9"`, "eth0, net1, data0, net2"}, "detach", "e1", "--interface", "net9")
	h.refuse(2, []string{"net2 exists already"}, "attach", "e1", "--networks", "storage@net2")
	h.refuse(2, []string{`"nope"`}, "attach", "e1", "--networks", "nope")
	h.refuse(2, []string{"8080/tcp is mapped twice"}, "attach", "e1", "--publish", "x=8080:81/tcp",
		"--networks", `[{"name": "web", "ports": ["x"]}]`)
	h.refuse(3, []string{"not set up"}, "detach", "e9", "--interface", "net1")
	h.refuse(0, []string{"allocation e9 was not set up here"}, "detach", "e9")
	if out := h.must("detach", "e9", "--json"); !strings.Contains(out, `"recorded": false`) {
		t.Errorf("detach of what is not set up prints %s", out)
	}
	h.refuse(2, []string{`not attached to network "nope": it has web, storage, vlan, peer`}, "detach", "e1", "--network", "nope")
	h.refuse(3, []string{"not set up"}, "detach", "e9", "--network", "storage")
	h.must("detach", "e1", "--network", "peer")
	h.must("detach", "e1", "--interface", "net1")
	if out := h.must("status", "e1"); strings.Contains(out, "peer") || strings.Contains(out, "storage") || !strings.Contains(out, "data0") {
		t.Errorf("after two were detached, status says\n%s", out)
	}
	if out := sandbox.Run(t, "ip", "-n", "e1", "-br", "link"); strings.Contains(out, "net") || !strings.Contains(out, "data0") {
		t.Errorf("after two were detached, the namespace has\n%s", out)
	}
	h.must("check", "e1")
	h.attach("e2", "--primary", "web")
	if out := h.must("detach", "--all"); out != "detached e1\ndetached e2\n" {
		t.Errorf("detach of all prints %s", out)
	}
	if out := h.must("status", "-q"); out != "" {
		t.Errorf("after all were detached, there are %s", out)
	}
	h.refuse(2, []string{"no ID with --all"}, "detach", "e1", "--all")
}

// foreign creates a namespace with a main network and a default route of another runtime,
// as Nomad's bridge mode does.
func foreign(t *testing.T, name string) string {
	t.Helper()
	path, err := netns.Create(netns.DefaultDir, name)
	if err != nil {
		t.Fatal(err)
	}
	sandbox.Run(t, "ip", "link", "add", "f-"+name, "type", "veth", "peer", "name", "eth0", "netns", name)
	sandbox.Run(t, "ip", "-n", name, "address", "add", "172.26.64.2/24", "dev", "eth0")
	sandbox.Run(t, "ip", "-n", name, "link", "set", "eth0", "up")
	sandbox.Run(t, "ip", "link", "set", "f-"+name, "up")
	sandbox.Run(t, "ip", "-n", name, "route", "add", "default", "via", "172.26.64.1")
	t.Cleanup(func() {
		if err := netns.Remove(path); err != nil {
			t.Error(err)
		}
	})
	return path
}

func defaultRoute(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(sandbox.Run(t, "ip", "-n", name, "route", "show", "default"))
}

// TestForeignNamespace: tasks attach at the same time to an allocation whose
// namespace and main network are another runtime's.
func TestForeignNamespace(t *testing.T) {
	h := newHost(t)
	path := foreign(t, "their")
	ctx, e := context.Background(), h.engine(nil)
	const tasks = 8
	task := func(i int) string { return fmt.Sprintf("task-%d", i) }
	crowd(tasks, tasks, func(i int) {
		_, err := e.Extend(ctx, hook.Request{ID: "n1", Netns: path, Task: task(i),
			Networks: []selection.Element{{Name: "web", Ports: []string{}}, {Name: "storage"}}})
		if err != nil {
			t.Errorf("%s: %v", task(i), err)
		}
	})
	a, err := e.Status(ctx, "n1")
	if err != nil {
		t.Fatal(err)
	}
	owned := map[string]int{}
	addresses := map[netip.Prefix]bool{}
	for _, n := range a.Attachments {
		owned[n.Task]++
		for _, address := range n.Addresses {
			addresses[address] = true
		}
		if n.Primary {
			t.Errorf("%s is said to be the primary", n.Interface)
		}
	}
	if len(owned) != tasks || owned[task(3)] != 2 || len(addresses) != tasks*3 {
		t.Errorf("attachments of the tasks: %v, %d addresses", owned, len(addresses))
	}
	if got := defaultRoute(t, "their"); got != "default via 172.26.64.1 dev eth0" {
		t.Errorf("the default route is %q now", got)
	}
	if _, err := e.Check(ctx, "n1"); err != nil {
		t.Error(err)
	}
	var refused *hook.RequestError
	sandbox.Run(t, "ip", "netns", "add", "another")
	t.Cleanup(func() { sandbox.Run(t, "ip", "netns", "del", "another") })
	if _, err := e.Extend(ctx, hook.Request{ID: "n1", Netns: "/run/netns/another", Networks: []selection.Element{{Name: "peer"}}}); !errors.As(err, &refused) {
		t.Errorf("in another namespace: %v", err)
	}
	crowd(tasks, tasks, func(i int) {
		for range 2 {
			if err := e.Release(ctx, "n1", task(i)); err != nil {
				t.Errorf("%s: %v", task(i), err)
			}
		}
	})
	if _, err := e.Status(ctx, "n1"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("with nothing attached any more: %v", err)
	}
	if out := sandbox.Run(t, "ip", "-n", "their", "-br", "link"); strings.Contains(out, "net") || !strings.Contains(out, "eth0") {
		t.Errorf("left in the namespace:\n%s", out)
	}
}

// TestDefaultRouteIsRestored: an attachment that asks for the default route gets
// it; when it is detached, or fails, the previous one is restored.
func TestDefaultRouteIsRestored(t *testing.T) {
	h := newHost(t)
	path := foreign(t, "their")
	h.fake("fake", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"ADD": {Code: 7, Msg: "no such VLAN"}}})
	ctx, e := context.Background(), h.engine(nil)
	asks := func(network, iface string) selection.Element {
		return selection.Element{Name: network, Interface: iface, DefaultRoute: []string{}}
	}
	want := func(route string) {
		t.Helper()
		if got := defaultRoute(t, "their"); got != route {
			t.Errorf("the default route is %q, want %q", got, route)
		}
	}
	extend := func(elements ...selection.Element) error {
		_, err := e.Extend(ctx, hook.Request{ID: "w1", Netns: path, Networks: elements})
		return err
	}
	if err := extend(asks("web", "net1")); err != nil {
		t.Fatal(err)
	}
	want("default via 10.88.0.1 dev net1")
	if err := extend(asks("peer", "net2")); err != nil {
		t.Fatal(err)
	}
	want("default via 10.90.0.1 dev net2")
	if _, err := e.Check(ctx, "w1"); err != nil {
		t.Errorf("the plugins do not know the routes as they are: %v", err)
	}
	if err := extend(asks("web", "net3"), selection.Element{Name: "fake"}); err == nil || !strings.Contains(err.Error(), "no such VLAN") {
		t.Errorf("got %v", err)
	}
	want("default via 10.90.0.1 dev net2")
	for _, step := range []struct{ iface, route string }{
		{"net1", "default via 10.90.0.1 dev net2"}, {"net2", "default via 172.26.64.1 dev eth0"},
	} {
		if err := e.Detach(ctx, "w1", step.iface); err != nil {
			t.Error(err)
		}
		want(step.route)
	}
	if err := extend(asks("web", "net1")); err != nil {
		t.Fatal(err)
	}
	if err := e.Teardown(ctx, "w1"); err != nil {
		t.Error(err)
	}
	want("default via 172.26.64.1 dev eth0")
}

// TestExtendFails: existing attachments remain, added ones are removed.
func TestExtendFails(t *testing.T) {
	h := newHost(t)
	h.fake("fake", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"ADD": {Code: 7, Msg: "no such VLAN"}}})
	h.attach("x1", "--primary", "web")
	h.refuse(1, []string{`network "fake" as net2`, "no such VLAN"}, "attach", "x1", "--networks", "storage,fake,peer")
	if out := sandbox.Run(t, "ip", "-n", "x1", "-br", "link"); strings.Contains(out, "net") {
		t.Errorf("left in the namespace:\n%s", out)
	}
	h.must("check", "x1")
	h.must("detach", "x1")
}

// TestExtendAfterFailedUndo: while what a failed attach left cannot be removed, the
// same request fails again; then it is attached.
func TestExtendAfterFailedUndo(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	h.fake("fake", fakecni.Script{Verbs: map[string]fakecni.Behaviour{
		"ADD": {Code: 7, Msg: "no such VLAN", FailTimes: 1, Counter: dir + "/added"},
		"DEL": {Code: 7, Msg: "out of order", FailTimes: 100, Counter: dir + "/deleted"},
	}})
	h.attach("u1", "--primary", "web")
	h.refuse(1, []string{"no such VLAN", "out of order"}, "attach", "u1", "--networks", "fake")
	h.refuse(1, []string{`network "fake" as net1`, "out of order"}, "attach", "u1", "--networks", "fake")
	sandbox.WriteFile(t, dir+"/deleted", strings.Repeat(".", 100)) // from now on it succeeds
	if got := names(h.attach("u1", "--networks", "fake")); got != "web=eth0 fake=net1" {
		t.Errorf("attached %s", got)
	}
	h.must("check", "u1")
	h.must("detach", "u1")
}

// TestNotify: each attempt is reported.
func TestNotify(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	h.fake("fake", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"ADD": {Code: 11, Msg: "busy", FailTimes: 1, Counter: dir + "/counter"}}})
	h.attach("z1", "--primary", "web")
	var steps []string
	_, err := h.engine(nil).Extend(context.Background(), hook.Request{ID: "z1", Networks: []selection.Element{{Name: "fake"}}, Notify: func(s hook.Step) {
		steps = append(steps, fmt.Sprintf("%s %s %d/%d %t", s.Network, s.Interface, s.Attempt, s.Of, s.Err == nil))
	}})
	if err != nil || !slices.Equal(steps, []string{"fake net1 1/3 false", "fake net1 2/3 true"}) {
		t.Errorf("steps %q, %v", steps, err)
	}
	h.must("detach", "z1")
}

// TestDetachFails: an attachment that cannot be removed stays on record, affects no
// other, and is retried by the next operation.
func TestDetachFails(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	h.fake("fake", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"DEL": {Code: 7, Msg: "cannot", FailTimes: 2, Counter: dir + "/counter"}}})
	h.attach("y1", "--primary", "web", "--networks", "storage,fake")
	h.refuse(1, []string{`detach network "fake" as net2`, "cannot"}, "detach", "y1", "--interface", "net2")
	if out := h.must("status", "y1"); !strings.Contains(out, "pending") {
		t.Errorf("status does not say that it is pending:\n%s", out)
	}
	h.attach("y1", "--networks", "vlan") // the second attempt, which fails as well
	if _, err := h.engine(nil).GC(context.Background(), hook.GCRequest{Leaks: hook.IgnoreLeaks}); err != nil {
		t.Error(err)
	}
	if out := h.must("status", "y1"); strings.Contains(out, "fake") || strings.Count(out, "attached") != 3 {
		t.Errorf("after GC, status says\n%s", out)
	}
	h.must("check", "y1")
	h.must("detach", "y1")
}

// TestNamespaceReplaced: after a reboot, or a CHECK that failed, Nomad's
// namespace is another one at the same path.
func TestNamespaceReplaced(t *testing.T) {
	h := newHost(t)
	path := foreign(t, "their")
	ctx, e := context.Background(), h.engine(nil)
	request := hook.Request{ID: "p1", Netns: path, Task: "a", Networks: []selection.Element{{Name: "storage"}}}
	first, err := e.Extend(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	if err := netns.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Extend(ctx, hook.Request{ID: "p1", Networks: request.Networks}); !errors.Is(err, netns.ErrMissing) {
		t.Errorf("attach without a namespace: %v", err)
	}
	if _, err := netns.Create(netns.DefaultDir, "their"); err != nil {
		t.Fatal(err)
	}
	request.Task = "b"
	second, err := e.Extend(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	if names(second) != "storage=net1" || second.Attachments[0].MAC == first.Attachments[0].MAC {
		t.Errorf("attached %+v", second.Attachments)
	}
	requireLeases(t, second)
	if err := e.Release(ctx, "p1", "b"); err != nil {
		t.Error(err)
	}
}

// TestExtendOrphan kills allocnet while a plugin attaches a further network.
// The next call waits for the plugin, removes its attachment, and leaves the others.
func TestExtendOrphan(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	h.fake("fake", fakecni.Script{Log: dir + "/calls", Verbs: map[string]fakecni.Behaviour{"ADD": {Mark: dir + "/begun", Await: dir + "/go"}}})
	h.attach("o1", "--primary", "web")
	cmd := h.command("attach", "o1", "--networks", "storage,fake")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, dir+"/begun")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	next := h.command("attach", "o1", "--networks", "vlan", "--log-level", "debug")
	waiting := listen(next, "waiting for plugins that a killed process started")
	if err := next.Start(); err != nil {
		t.Fatal(err)
	}
	waiting.await(t) // DEL has to wait from here on
	if calls := read(t, dir+"/calls"); strings.Contains(calls, "DEL") {
		t.Errorf("DEL came while ADD was running:\n%s", calls)
	}
	sandbox.WriteFile(t, dir+"/go", "")
	if err := next.Wait(); err != nil {
		t.Errorf("attach: %v", err)
	}
	if out := sandbox.Run(t, "ip", "-n", "o1", "-br", "link"); strings.Count(out, "net") != 1 {
		t.Errorf("the namespace has, besides net1,\n%s", out)
	}
	h.must("check", "o1")
	h.must("detach", "o1")
}

// TestLongExtendKilledAnywhere kills allocnet after increasing times while it adds networks,
// and while it detaches one. After GC all of the batch is attached or nothing of it, and
// the earlier attachments remain.
func TestLongExtendKilledAnywhere(t *testing.T) {
	h := newHost(t)
	for name, sweep := range map[string]struct {
		prepare []string
		kill    []string
		allowed []string
	}{
		"attach": {nil, []string{"attach", "k1", "--networks", "peer,vlan"},
			[]string{"web=eth0 storage=net1", "web=eth0 storage=net1 peer=net2 vlan=net3"}},
		"detach": {[]string{"attach", "k1", "--networks", "peer,vlan"}, []string{"detach", "k1", "--interface", "net2"},
			[]string{"web=eth0 storage=net1 vlan=net3", "web=eth0 storage=net1 peer=net2 vlan=net3"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := *h
			h.t = t
			prepare := func() {
				h.must("attach", "k1", "--primary", "web", "--networks", "storage")
				if sweep.prepare != nil {
					h.must(sweep.prepare...)
				}
			}
			h.killAnywhere(prepare, sweep.kill, func(when string) {
				e := h.engine(nil)
				if _, err := e.GC(context.Background(), hook.GCRequest{Leaks: hook.IgnoreLeaks}); err != nil {
					t.Error(err)
				}
				a, err := e.Status(context.Background(), "k1")
				if err != nil {
					t.Fatal(err)
				}
				if got := names(a); !slices.Contains(sweep.allowed, got) {
					t.Errorf("%s: %s", when, got)
				}
				if _, err := e.Check(context.Background(), "k1"); err != nil {
					t.Errorf("%s: %v", when, err)
				}
				h.must("detach", "k1")
				h.requireNoState()
			})
			sandbox.RequireSame(t, h.before)
		})
	}
}

// TestExtendLostRecord: if the record of an added attachment is lost, the owner of the
// allocation can still detach it, and attach the network again.
func TestExtendLostRecord(t *testing.T) {
	h := newHost(t)
	path := foreign(t, "their")
	ctx, e := context.Background(), h.engine(nil)
	request := func(owner string) hook.Request {
		return hook.Request{ID: "l1", Netns: path, Task: owner, Networks: []selection.Element{{Name: "storage"}}}
	}
	for _, owner := range []string{"a", "b"} {
		if _, err := e.Extend(ctx, request(owner)); err != nil {
			t.Fatal(err)
		}
	}
	sandbox.SpoilLines(t, h.state+"/allocations/l1/journal", `"interface":"net1"`)
	if err := e.Release(ctx, "l1", "a"); err != nil {
		t.Fatal(err)
	}
	if a, err := e.Status(ctx, "l1"); err != nil || names(a) != "storage=net2" {
		t.Errorf("left %+v, %v", a, err)
	}
	if err := os.RemoveAll(h.state + "/allocations/l1"); err != nil {
		t.Fatal(err)
	}
	if err := e.Release(ctx, "l1", "b"); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(h.state + "/damaged"); err != nil {
		t.Fatal(err)
	}
}

// TestExtendWaitsItsTurn: calls for one allocation run one after the other, and one whose
// context ends while it waits does nothing.
func TestExtendWaitsItsTurn(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	h.fake("fake", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"ADD": {Mark: dir + "/begun", Await: dir + "/go"}}})
	h.attach("q1", "--primary", "web")
	e := h.engine(nil)
	var first sync.WaitGroup
	first.Go(func() {
		if _, err := e.Extend(context.Background(), hook.Request{ID: "q1", Networks: []selection.Element{{Name: "fake"}}}); err != nil {
			t.Error(err)
		}
	})
	await(t, dir+"/begun")
	ctx, cancel := context.WithCancelCause(context.Background())
	gaveUp := errors.New("gave up")
	cancel(gaveUp)
	if err := e.Detach(ctx, "q1", "eth0"); !errors.Is(err, gaveUp) {
		t.Errorf("got %v, want the context's cause", err)
	}
	sandbox.WriteFile(t, dir+"/go", "")
	first.Wait()
	if _, err := e.Extend(context.Background(), hook.Request{ID: "q1", Networks: []selection.Element{{Name: "storage"}}}); err != nil {
		t.Error(err)
	}
	if a, err := e.Status(context.Background(), "q1"); err != nil || names(a) != "web=eth0 fake=net1 storage=net2" {
		t.Errorf("attached %+v, %v", a, err)
	}
	h.must("detach", "q1")
}
