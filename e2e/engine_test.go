// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// engine opens the engine on a host, with the configuration changed by edit.
func (h *host) engine(edit func(*hook.Config)) *hook.Engine {
	h.t.Helper()
	c := hook.Config{ConfDirs: []string{h.conf}, PluginDirs: []string{sandbox.PluginDir(), h.plugins}, StateDir: h.state, Cleaner: hook.NoCleaner, Executor: sandbox.Executor()}
	if edit != nil {
		edit(&c)
	}
	e, err := hook.NewEngine(c)
	if err != nil {
		h.t.Fatal(err)
	}
	return e
}

// cleaner records what it is asked to clean.
type cleaner struct {
	asked []string
	err   error
}

func (c *cleaner) Clean(_ context.Context, leftovers []state.Leftover) []error {
	for _, l := range leftovers {
		for _, s := range l.Suspects {
			c.asked = append(c.asked, l.Allocation.ID+" "+s.Attachment.Interface)
		}
	}
	slices.Sort(c.asked)
	return slices.Repeat([]error{c.err}, len(leftovers))
}

func (c *cleaner) Left(context.Context, state.Attachment, string) error { return nil }

func (c *cleaner) Covers(state.Attachment) bool { return false }

// TestForcedCleanupIsCalled: the cleaner runs when DEL fails, and always when the
// namespace is missing. What it could not remove stays pending.
func TestForcedCleanupIsCalled(t *testing.T) {
	h := newHost(t)
	h.fake("fake", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"DEL": {Code: 7, Msg: "cannot"}}})
	ctx := context.Background()
	c := &cleaner{err: errors.New("cannot either")}
	e := h.engine(func(config *hook.Config) { config.Cleaner = c })
	request := hook.Request{ID: "c1", Primary: &selection.Element{Name: "storage"}, Networks: []selection.Element{{Name: "fake"}}}
	if _, err := e.Setup(ctx, request); err != nil {
		t.Fatal(err)
	}
	err := e.Teardown(ctx, "c1")
	if err == nil || !strings.Contains(err.Error(), "cannot either") {
		t.Errorf("got %v", err)
	}
	a, err := e.Status(ctx, "c1")
	if err != nil || len(a.Attachments) != 1 || a.Attachments[0].Phase != state.Pending || a.Attachments[0].Attempts != 1 {
		t.Errorf("recorded %+v, %v, want one pending after one try", a, err)
	}
	c.err = nil
	if err := e.Teardown(ctx, "c1"); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"c1 net1", "c1 net1"}, c.asked); diff != "" {
		t.Error(diff)
	}
	// This cleaner has not removed the lease of the fake network.
	if err := os.RemoveAll("/run/fake-leases"); err != nil {
		t.Fatal(err)
	}
	removeCache(t, "fake-c1.allocnet.net1-net1")

	c.asked = nil
	request.Networks = []selection.Element{{Name: "vlan"}}
	a, err = e.Setup(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	if err := netns.Remove(a.Netns); err != nil {
		t.Fatal(err)
	}
	if err := e.Teardown(ctx, "c1"); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"c1 eth0", "c1 net1"}, c.asked); diff != "" {
		t.Errorf("with the namespace missing: %s", diff)
	}
}

func removeCache(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove("/var/lib/cni/results/" + name); err != nil {
		t.Error(err)
	}
}

// TestGC: GC tears down dead and interrupted allocations, keeps live ones, and runs the
// plugins' GC with the valid attachments.
func TestGC(t *testing.T) {
	h := newHost(t)
	log := t.TempDir() + "/calls"
	sandbox.WriteFile(t, h.conf+"/91-collected.conflist", fmt.Sprintf(`{"cniVersion": "1.1.0", "name": "collected", "plugins": [{"type": "fakecni", "fake": {"log": %q}}]}`, log))
	ctx, e := context.Background(), h.engine(nil)
	setup := func(id string) *hook.Allocation {
		a, err := e.Setup(ctx, hook.Request{ID: id, Primary: &selection.Element{Name: "storage"}, Networks: []selection.Element{{Name: "collected"}}})
		if err == nil || !strings.Contains(err.Error(), "net1") {
			return a
		}
		t.Fatal(err)
		return nil
	}
	for _, id := range []string{"alive", "dead", "said-alive"} {
		if a := setup(id); id != "alive" {
			if err := netns.Remove(a.Netns); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.killedWhileAdding("interrupted")
	got, err := e.GC(ctx, hook.GCRequest{Leaks: hook.IgnoreLeaks, Live: func(context.Context) (cleanup.Live, error) {
		return func(id string) string { return map[string]string{"said-alive": "the test"}[id] }, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"dead", "interrupted"}, got.TornDown); diff != "" {
		t.Errorf("torn down: %s", diff)
	}
	if !slices.Contains(got.Networks, "collected") || got.Skipped["web"] != "cniVersion 1.0.0 has no GC" {
		t.Errorf("collected %+v", got)
	}
	calls := read(t, log)
	if !strings.Contains(calls, `GC [{"containerID":"alive.allocnet.net1","ifname":"net1"},{"containerID":"said-alive.allocnet.net1","ifname":"net1"}`) || strings.Contains(calls[strings.Index(calls, "GC"):], `"dead`) {
		t.Errorf("the plugin was told:\n%s", calls)
	}
	for _, id := range []string{"alive", "said-alive"} {
		if err := e.Teardown(ctx, id); err != nil {
			t.Error(err)
		}
	}
}

// killedWhileAdding leaves an allocation as kill -9 in the middle of ADD does.
func (h *host) killedWhileAdding(id string) {
	h.t.Helper()
	dir := h.t.TempDir()
	h.fake("slow", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"ADD": {Mark: dir + "/begun", Await: dir + "/go"}}})
	cmd := h.command("attach", id, "--primary", "slow")
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	await(h.t, dir+"/begun")
	if err := cmd.Process.Kill(); err != nil {
		h.t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	sandbox.WriteFile(h.t, dir+"/go", "")
}

// TestCancelledWhileAPluginRuns: the end of the context kills the plugin and undoes the
// set-up.
func TestCancelledWhileAPluginRuns(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	h.fake("fake", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"ADD": {Mark: dir + "/begun", Hang: true}}})
	gaveUp := errors.New("gave up")
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		await(t, dir+"/begun")
		cancel(gaveUp)
	}()
	_, err := h.engine(nil).Setup(ctx, hook.Request{ID: "x1", Primary: &selection.Element{Name: "web"}, Networks: []selection.Element{{Name: "fake"}}})
	if !errors.Is(err, gaveUp) {
		t.Errorf("got %v, want the context's cause", err)
	}
}

// TestAddressLookup: if the plugins report no addresses, the allocation has those of the
// interface.
func TestAddressLookup(t *testing.T) {
	h := newHost(t)
	result := `{"cniVersion": "1.0.0", "interfaces": [{"name": "net1", "sandbox": "/x"}], "ips": []}`
	sandbox.WriteFile(t, h.conf+"/92-silent.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "silent", "plugins": [
		{"type": "bridge", "bridge": "storage0", "ipam": {"type": "static", "addresses": [{"address": "10.94.0.7/24"}, {"address": "fd00:94::7/64"}]}},
		{"type": "fakecni", "fake": {"verbs": {"ADD": {"output": %q}}}}]}`, result))
	a := h.attach("q1", "--networks", "silent")
	if got := fmt.Sprint(a.Attachments[0].Addresses); got != "[10.94.0.7/24 fd00:94::7/64]" {
		t.Errorf("addresses %s, want those of the interface, IPv4 first", got)
	}
	h.must("detach", "q1")
}
