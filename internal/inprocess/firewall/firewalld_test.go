// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package firewall

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
)

// fakeFirewalld has the sources of zones, and the errors of firewalld.
type fakeFirewalld struct {
	zones map[string]string
	fail  error
}

func (f *fakeFirewalld) CallWithContext(_ context.Context, method string, _ dbus.Flags, args ...any) *dbus.Call {
	zone, source := args[0].(string), args[1].(string)
	of, is := f.zones[source]
	refused := func(text string) *dbus.Call {
		return &dbus.Call{Err: dbus.Error{Name: "org.fedoraproject.FirewallD1.Exception", Body: []any{text}}}
	}
	switch {
	case f.fail != nil:
		return &dbus.Call{Err: f.fail}
	case method == "org.fedoraproject.FirewallD1.zone.querySource":
		return &dbus.Call{Body: []any{of == zone}}
	case method == "org.fedoraproject.FirewallD1.zone.addSource" && of == zone:
		return refused("ZONE_ALREADY_SET: '" + source + "' already bound to '" + zone + "'")
	case method == "org.fedoraproject.FirewallD1.zone.addSource" && is:
		return refused("ZONE_CONFLICT: '" + source + "' already bound to '" + of + "'")
	case method == "org.fedoraproject.FirewallD1.zone.addSource":
		f.zones[source] = zone
	case !is:
		return refused("UNKNOWN_SOURCE: '" + source + "' is not in any zone")
	case of != zone:
		return refused("ZONE_CONFLICT: remove_source(" + zone + ")")
	default:
		delete(f.zones, source)
	}
	return &dbus.Call{Body: []any{zone}}
}

// TestSources: addresses are sources between ADD and DEL, both of which may be repeated, and a repair adds those that a reload
// has removed.
func TestSources(t *testing.T) {
	f := &fakeFirewalld{zones: map[string]string{"192.0.2.0/24": "public"}}
	s := &sources{ctx: t.Context(), firewalld: f, zone: "trusted", addresses: []string{"10.0.0.5/32", "fd00::5/128"}}
	want := map[string]string{"192.0.2.0/24": "public", "10.0.0.5/32": "trusted", "fd00::5/128": "trusted"}
	require := func(when string, err error, want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, f.zones); diff != "" || err != nil {
			t.Fatalf("%s: the error is %v, and the sources differ (-want +got):\n%s", when, err, diff)
		}
	}
	require("ADD", s.add(), want)
	require("ADD again", s.add(), want)
	delete(f.zones, "10.0.0.5/32")
	delete(f.zones, "fd00::5/128")
	for _, dryRun := range []bool{true, false} {
		r := &remedy.Repair{DryRun: dryRun}
		if err := s.repair(r); err != nil || !slices.Equal(r.Missing, []string{"source 10.0.0.5/32 of firewalld's zone trusted", "source fd00::5/128 of firewalld's zone trusted"}) {
			t.Errorf("the repair says %q, %v", r.Missing, err)
		}
	}
	require("repair", nil, want)
	if r := (&remedy.Repair{}); s.repair(r) != nil || r.Found() {
		t.Errorf("a repair of nothing says %q", r.Missing)
	}
	delete(want, "10.0.0.5/32")
	delete(want, "fd00::5/128")
	require("DEL", s.remove(), want)
	require("DEL again", s.remove(), want)
}

// TestSourcesFail: a source of another zone is the operator's, and what firewalld does not answer is an error of every verb.
func TestSourcesFail(t *testing.T) {
	f := &fakeFirewalld{zones: map[string]string{"10.0.0.5/32": "drop"}}
	s := &sources{ctx: t.Context(), firewalld: f, zone: "trusted", addresses: []string{"10.0.0.5/32"}}
	repair := func() error { return s.repair(&remedy.Repair{}) }
	for verb, do := range map[string]func() error{"ADD": s.add, "DEL": s.remove, "a repair": repair} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "ZONE_CONFLICT") || f.zones["10.0.0.5/32"] != "drop" {
			t.Errorf("%s of a source of another zone: %v", verb, err)
		}
	}
	f.fail = errors.New("the connection is closed")
	for verb, do := range map[string]func() error{"ADD": s.add, "DEL": s.remove, "a repair": repair} {
		if err := do(); !errors.Is(err, f.fail) || !strings.Contains(err.Error(), "10.0.0.5/32") {
			t.Errorf("%s without an answer: %v", verb, err)
		}
	}
}

// TestFirewallBackend: without a bus, iptables has the rules, unless the configuration requires firewalld.
func TestFirewallBackend(t *testing.T) {
	bus, policies := busSocket, firewalldPolicies
	t.Cleanup(func() { busSocket, firewalldPolicies = bus, policies })
	firewalldPolicies = []string{"/"} // installed
	busSocket = filepath.Join(t.TempDir(), "missing")
	unused := func(*sources) error { return errors.New("there is no firewalld") }
	for backend, want := range map[string]error{"": nil, "iptables": nil, "firewalld": errNoFirewalld} {
		conf := &config{Backend: backend}
		isFirewalld, err := conf.withSources(&plugin.Call{Ctx: t.Context(), Verb: "ADD"}, &current.Result{}, unused)
		if !errors.Is(err, want) || isFirewalld != (want != nil) {
			t.Errorf("backend %q: firewalld %t, %v", backend, isFirewalld, err)
		}
		if _, err := conf.withSources(&plugin.Call{Ctx: t.Context(), Verb: "CHECK"}, &current.Result{}, unused); err != nil {
			t.Errorf("backend %q of an attachment: %v", backend, err)
		}
	}
}

// TestBusWithoutFirewalld: on a host that has no firewalld, a bus that does not answer is no obstacle.
func TestBusWithoutFirewalld(t *testing.T) {
	bus, policies := busSocket, firewalldPolicies
	t.Cleanup(func() { busSocket, firewalldPolicies = bus, policies })
	firewalldPolicies = []string{"/missing"}
	busSocket = filepath.Join(t.TempDir(), "bus")
	if err := os.WriteFile(busSocket, nil, 0o600); err != nil { // as of a daemon that has ended
		t.Fatal(err)
	}
	isFirewalld, err := (&config{}).withSources(&plugin.Call{Ctx: t.Context(), Verb: "ADD"}, &current.Result{}, (*sources).add)
	if isFirewalld || err != nil {
		t.Errorf("firewalld %t, %v", isFirewalld, err)
	}
	source := Source{"trusted", netip.MustParseAddr("10.0.0.5")}
	found, err := FindSources(t.Context(), []Source{source})
	if err := errors.Join(err, RemoveSource(t.Context(), source)); len(found) > 0 || err != nil {
		t.Errorf("the sources %v, %v", found, err)
	}
}

// TestSilentBus: a bus that does not answer ends with the deadline. Whether firewalld runs is unknown then, and no backend is
// chosen.
func TestSilentBus(t *testing.T) {
	bus, policies := busSocket, firewalldPolicies
	t.Cleanup(func() { busSocket, firewalldPolicies = bus, policies })
	firewalldPolicies = []string{"/"}
	busSocket = filepath.Join(t.TempDir(), "bus")
	listener, err := net.Listen("unix", busSocket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := (&config{}).withSources(&plugin.Call{Ctx: ctx, Verb: "CHECK"}, &current.Result{}, (*sources).add); err == nil {
		t.Error("a bus that does not answer is taken for one without firewalld")
	}
	removed := &plugin.Call{Ctx: ctx, Version: "1.0.0", Verb: "DEL", Changes: &plugin.Changes{}, Config: []byte(`{"cniVersion": "1.0.0", "name": "n", "prevResult": {"cniVersion": "1.0.0"}}`)}
	if err := del(removed); err == nil || len(removed.Changes.Rules.Changes) > 0 {
		t.Errorf("DEL succeeds, and may leave a source: %v", err)
	}
	source := Source{"trusted", netip.MustParseAddr("10.0.0.5")}
	if found, err := FindSources(ctx, []Source{source}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it has the sources %v: %v", found, err)
	}
	if err := RemoveSource(ctx, source); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a source is removed: %v", err)
	}
}
