// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// repairs keeps the observations of repairs.
type repairs []Observation

func (r *repairs) Observe(o Observation) {
	if o.Op == OpRepair {
		*r = append(*r, o)
	}
}

// repairWorld has an allocation whose networks are executed in process.
func repairWorld(t *testing.T) (*world, *repairs) {
	t.Helper()
	i := install(t)
	i.inProcess = true
	w, seen := newWorld(t, i), &repairs{}
	w.config.Observers = []Observer{seen}
	w.restart()
	if err := setup(runtimeRequest)(w); err != nil {
		t.Fatal(err)
	}
	return w, seen
}

// requireDrifts repairs, and returns what was missing, each with its interface.
func requireDrifts(t *testing.T, w *world, r RepairRequest) (missing []string, open bool) {
	t.Helper()
	drifts, err := w.RepairAttachments(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range drifts {
		for _, what := range slices.Concat(d.Missing, d.Unrepairable) {
			missing = append(missing, d.Interface+": "+what)
		}
		open = open || d.Open()
	}
	return missing, open
}

// TestRepairAttachments: a report changes nothing and is no event; a repair makes what is
// missing, once.
func TestRepairAttachments(t *testing.T) {
	w, seen := repairWorld(t)
	ns := w.namespaces.at[runtimeNetns]
	lo := slices.IndexFunc(ns.interfaces, func(i netns.Interface) bool { return i.Name == "lo" })
	ns.interfaces[lo].Up = false
	w.failing["CHECK macvlan net2"] = errors.New("a rule")
	want := []string{"lo: interface lo is down", "net2: a rule"}
	for range 2 {
		if missing, open := requireDrifts(t, w, RepairRequest{Mode: RepairReport}); !slices.Equal(missing, want) || !open {
			t.Errorf("reported %q, open %v, want %q", missing, open, want)
		}
	}
	if len(*seen) > 0 {
		t.Errorf("reports were observed as %v", *seen)
	}
	if ns.announced {
		t.Error("the namespace is announced, and the request does not say so")
	}
	by := []Remover{{Name: "nft", PID: 1}}
	removedBy := func(id string, missing []string) []Remover {
		if id != "runtime" || !slices.Equal(missing, []string{"a rule"}) {
			t.Errorf("asked who removed %q of %s", missing, id)
		}
		return by
	}
	if missing, open := requireDrifts(t, w, RepairRequest{RemovedBy: removedBy, Announce: true}); !slices.Equal(missing, want) || open {
		t.Errorf("repaired %q, open %v, want %q", missing, open, want)
	}
	if !ns.announced {
		t.Error("the namespace is not announced")
	}
	if len(*seen) != 1 || !slices.Equal((*seen)[0].RemovedBy, by) || (*seen)[0].Interface != "net2" || !slices.Equal((*seen)[0].Missing, []string{"a rule"}) || (*seen)[0].Err != nil {
		t.Errorf("observed %+v", *seen)
	}
	if missing, _ := requireDrifts(t, w, RepairRequest{}); missing != nil {
		t.Errorf("repaired again: %q", missing)
	}
}

// probe is an error that looks at something when it is asked for.
type probe func() string

func (p probe) Error() string { return p() }

// TestRepairLocks: an allocation is not locked while it is only looked at, and is while it is
// repaired.
func TestRepairLocks(t *testing.T) {
	w, _ := repairWorld(t)
	another, err := state.Open(w.config.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	var locked []bool
	w.failing["CHECK macvlan net2"] = probe(func() string {
		lock, err := another.TryLock("runtime")
		locked = append(locked, errors.Is(err, state.ErrLocked))
		if err == nil {
			lock.Unlock()
		}
		return "a rule"
	})
	if missing, open := requireDrifts(t, w, RepairRequest{}); !slices.Equal(missing, []string{"net2: a rule"}) || open {
		t.Errorf("repaired %q, open %v", missing, open)
	}
	if !slices.Equal(locked, []bool{false, true}) {
		t.Errorf("locked: %v, want that it is when it is repaired", locked)
	}
}

// TestRepairExcept: what is left out is neither looked at nor locked.
func TestRepairExcept(t *testing.T) {
	w, _ := repairWorld(t)
	w.failing["CHECK macvlan net2"] = errors.New("a rule")
	except := func(id string) bool { return id == "runtime" }
	if missing, open := requireDrifts(t, w, RepairRequest{Except: except}); missing != nil || open {
		t.Errorf("repaired %q, open %v, of an allocation that is left out", missing, open)
	}
	if missing, _ := requireDrifts(t, w, RepairRequest{}); missing == nil {
		t.Error("nothing was missing")
	}
}

// TestRepairSkips: what another call works on, what is gone, and what was never there is not
// touched.
func TestRepairSkips(t *testing.T) {
	w, _ := repairWorld(t)
	if _, err := w.RepairAttachments(t.Context(), RepairRequest{Mode: "all"}); errdefs.Of(err) != errdefs.Refused {
		t.Errorf("an unknown mode: %v", err)
	}
	skipped := func() string {
		t.Helper()
		drifts, err := w.RepairAttachments(t.Context(), RepairRequest{})
		if err != nil || len(drifts) != 1 || drifts[0].Open() {
			t.Fatalf("%+v, %v", drifts, err)
		}
		return drifts[0].Skipped
	}
	o, err := w.env.Begin(t.Context(), "runtime")
	if err != nil {
		t.Fatal(err)
	}
	if got := skipped(); !strings.Contains(got, "another call") {
		t.Errorf("locked: %q", got)
	}
	o.End()
	if err := w.namespaces.Remove(runtimeNetns); err != nil {
		t.Fatal(err)
	}
	if got := skipped(); !strings.Contains(got, "namespace is gone") {
		t.Errorf("without its namespace: %q", got)
	}
	drifts, err := w.RepairAttachments(t.Context(), RepairRequest{IDs: []string{"other"}})
	if err != nil || len(drifts) != 1 || !errors.Is(drifts[0].Err, state.ErrNotFound) {
		t.Errorf("never set up: %+v, %v", drifts, err)
	}
}

// TestRepairUnknownPlugins: what plugins do that allocnet does not know is reported if their
// CHECK fails, and nothing is changed.
func TestRepairUnknownPlugins(t *testing.T) {
	w := newWorld(t, install(t))
	if err := setup(runtimeRequest)(w); err != nil {
		t.Fatal(err)
	}
	if missing, open := requireDrifts(t, w, RepairRequest{}); missing != nil || open {
		t.Errorf("without damage: %q", missing)
	}
	w.namespaces.removeInterface(runtimeNetns, "net2")
	missing, open := requireDrifts(t, w, RepairRequest{})
	if len(missing) != 1 || !strings.Contains(missing[0], "interface is gone") || !open {
		t.Errorf("found %q, open %v", missing, open)
	}
}
