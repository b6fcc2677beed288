// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// liveSet is a Live of a request that knows some allocations.
func liveSet(ids ...string) func(context.Context) (cleanup.Live, error) {
	return func(context.Context) (cleanup.Live, error) {
		return func(id string) string {
			if slices.Contains(ids, id) {
				return "the test"
			}
			return ""
		}, nil
	}
}

// populated returns an engine with the allocations alive, gone and gone-storage; the
// namespaces of the last two are gone. gone-storage is on network storage, the
// others are on web.
func populated(t *testing.T) *memory {
	t.Helper()
	m := newMemory(t, nil)
	m.network(t, "web", "bridge")
	m.network(t, "storage", "macvlan")
	for id, network := range map[string]string{"alive": "web", "gone": "web", "gone-storage": "storage"} {
		a, err := m.Setup(t.Context(), Request{ID: id, Owner: "test/" + id, Primary: &selection.Element{Name: network, Interface: "eth0"}})
		if err == nil && id != "alive" {
			err = m.namespaces.Remove(a.Netns)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m.exec.names()
	return m
}

func TestGCRequest(t *testing.T) {
	unknown := errors.New("no answer")
	for name, test := range map[string]struct {
		request  GCRequest
		onHost   error
		torn     []string
		networks []string
		leaks    string // the request to look for leaks, after that for what the networks' plugins keep
		err      error  // then nothing is done
	}{
		"zero value":       {GCRequest{}, nil, []string{"gone", "gone-storage"}, []string{"web"}, "all, remove", nil},
		"a live set":       {GCRequest{Live: liveSet("gone")}, nil, []string{"gone-storage"}, []string{"web"}, "all, remove, live gone", nil},
		"live set unknown": {GCRequest{Live: func(context.Context) (cleanup.Live, error) { return nil, unknown }}, nil, nil, nil, "", unknown},
		"in a container":   {GCRequest{}, unknown, nil, nil, "", unknown},
		"one network":      {GCRequest{Network: "storage"}, nil, []string{"gone-storage"}, nil, "storage, remove", nil},
		"dry run":          {GCRequest{DryRun: true}, nil, nil, nil, "all, dry run", nil},
		"leaks reported":   {GCRequest{Leaks: ReportLeaks}, nil, []string{"gone", "gone-storage"}, []string{"web"}, "all, report", nil},
		"leaks ignored":    {GCRequest{Leaks: IgnoreLeaks}, nil, []string{"gone", "gone-storage"}, []string{"web"}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := populated(t)
			m.host.outside = test.onHost
			before, leaks := recorded(t, m.Engine), ""
			m.leaks = func(_ context.Context, r GCRequest, live cleanup.Live) (*cleanup.Report, error) {
				if r.DryRun == test.request.DryRun {
					leaks = describeLeaks(r, live)
				}
				return &cleanup.Report{}, nil
			}
			c, err := m.GC(t.Context(), test.request)
			if !errors.Is(err, test.err) {
				t.Fatalf("error %v, want %v", err, test.err)
			}
			if leaks != test.leaks {
				t.Errorf("leaks: %q, want %q", leaks, test.leaks)
			}
			kept := slices.DeleteFunc(before, func(id string) bool { return slices.Contains(test.torn, id) })
			if got := recorded(t, m.Engine); !slices.Equal(got, kept) {
				t.Errorf("on record: %q, want %q", got, kept)
			}
			if test.err != nil {
				if calls := m.exec.names(); c != nil || len(calls) > 0 {
					t.Errorf("collected %+v, calls %q", c, calls)
				}
				return
			}
			if !slices.Equal(c.TornDown, test.torn) || !slices.Equal(c.Networks, test.networks) || (c.Leaks != nil) != (test.leaks != "") {
				t.Errorf("collected %+v", c)
			}
		})
	}
}

func describeLeaks(r GCRequest, live cleanup.Live) string {
	text := "all"
	if r.Network != "" {
		text = r.Network
	}
	switch {
	case r.DryRun:
		text += ", dry run"
	case r.Leaks == ReportLeaks:
		text += ", report"
	default:
		text += ", remove"
	}
	for _, id := range []string{"alive", "gone", "gone-storage"} {
		if live(id) != "" {
			text += ", live " + id
		}
	}
	return text
}

// TestGCAsksAgain before it looks for leaks: what has come to life since the
// teardowns began is not among them, and without an answer leaks stay.
func TestGCAsksAgain(t *testing.T) {
	m := populated(t)
	m.leaks = func(_ context.Context, r GCRequest, _ cleanup.Live) (*cleanup.Report, error) {
		if !r.DryRun {
			t.Error("leaks are removed")
		}
		return &cleanup.Report{}, nil
	}
	unknown, asked := errors.New("no answer"), 0
	c, err := m.GC(t.Context(), GCRequest{Live: func(ctx context.Context) (cleanup.Live, error) {
		if asked++; asked > 1 {
			return nil, unknown
		}
		return liveSet()(ctx)
	}})
	if !errors.Is(err, unknown) || c == nil || len(c.TornDown) != 2 || asked != 2 {
		t.Errorf("asked %d times: %+v, %v", asked, c, err)
	}
}

// TestGCGoesOn past an allocation that cannot be torn down, and joins the errors.
func TestGCGoesOn(t *testing.T) {
	m := populated(t)
	m.env.Config.Cleaner = cleanerFunc(func(_ context.Context, left []state.Leftover) []error {
		errs := make([]error, len(left))
		for i, l := range left {
			if l.Allocation.ID == "gone" {
				errs[i] = errors.New("no iptables")
			}
		}
		return errs
	})
	c, err := m.GC(t.Context(), GCRequest{})
	if err == nil || !strings.Contains(err.Error(), "allocation gone: ") || !strings.Contains(err.Error(), "no iptables") {
		t.Errorf("error %v", err)
	}
	if !slices.Equal(c.TornDown, []string{"gone-storage"}) || fmt.Sprint(recorded(t, m.Engine)) != "[alive gone]" {
		t.Errorf("collected %+v, on record %q", c, recorded(t, m.Engine))
	}
}

// TestGCOfACancelledCaller ends with its cause, and what is on record stays.
func TestGCOfACancelledCaller(t *testing.T) {
	m := populated(t)
	gaveUp := errors.New("the caller gave up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gaveUp)
	if _, err := m.GC(ctx, GCRequest{}); !errors.Is(err, gaveUp) {
		t.Errorf("%v, want %v", err, gaveUp)
	}
	if got := recorded(t, m.Engine); len(got) != 3 {
		t.Errorf("on record %q", got)
	}
}

// TestGCKnowsTheLiving: the plugins of a network are asked to collect only with a list of all that
// may live on it: also of other runtimes, whose objects are all that shows them.
func TestGCKnowsTheLiving(t *testing.T) {
	object := func(network, containerID, iface string) cleanup.Object {
		return cleanup.Object{Kind: cleanup.Lease, Owner: cleanup.Owner{Network: network, Allocation: containerID, ContainerID: containerID, Interface: iface}}
	}
	for name, test := range map[string]struct {
		report   *cleanup.Report
		networks []string
		skipped  string
	}{
		"nothing is found":           {&cleanup.Report{}, []string{"web"}, "no attachment to it is known to live"},
		"a stranger":                 {&cleanup.Report{Decisions: []cleanup.Decision{{Object: object("storage", "c1", "eth0")}}}, []string{"storage", "web"}, ""},
		"a dead stranger":            {&cleanup.Report{Decisions: []cleanup.Decision{{Object: object("storage", "c1", "eth0"), Leaked: true}}}, []string{"web"}, "no attachment to it is known to live"},
		"its interface is not known": {&cleanup.Report{Decisions: []cleanup.Decision{{Object: object("storage", "c1", "eth0")}, {Object: object("storage", "c2", "")}}}, []string{"web"}, "the interface of c2 is not known"},
		"another object tells it":    {&cleanup.Report{Decisions: []cleanup.Decision{{Object: object("storage", "c1", "")}, {Object: object("storage", "c1", "eth0")}}}, []string{"storage", "web"}, ""},
		"rules cannot be listed":     {&cleanup.Report{Unknown: errors.New("no iptables")}, nil, "no iptables"},
	} {
		t.Run(name, func(t *testing.T) {
			m := populated(t)
			m.leaks = func(context.Context, GCRequest, cleanup.Live) (*cleanup.Report, error) { return test.report, nil }
			c, err := m.GC(t.Context(), GCRequest{})
			if err != nil || !slices.Equal(c.Networks, test.networks) || !strings.Contains(c.Skipped["storage"], test.skipped) {
				t.Errorf("collected %+v, %v", c, err)
			}
		})
	}
}

// TestGCOfOurOwnPlugin: the list of a conflist of allocnet-cni would lack all of its allocations.
func TestGCOfOurOwnPlugin(t *testing.T) {
	m := populated(t)
	m.network(t, "multi", "allocnet-cni")
	m.leaks = strangerOn("multi")
	c, err := m.GC(t.Context(), GCRequest{})
	if err != nil || slices.Contains(c.Networks, "multi") || !strings.Contains(c.Skipped["multi"], "on record") {
		t.Errorf("collected %+v, %v", c, err)
	}
}
