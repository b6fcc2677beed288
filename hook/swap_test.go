// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"slices"
	"testing"
)

// swap gives the path of the runtime's namespace to a stranger's, which has interfaces of all names.
// A task keeps the former namespace, which is returned.
func swap(w *world) (former *fakeNamespace) {
	w.namespaces.mu.Lock()
	former = w.namespaces.at[runtimeNetns]
	former.kept = true
	w.namespaces.mu.Unlock()
	w.namespaces.create(runtimeNetns)
	for _, name := range strangers {
		w.namespaces.add(runtimeNetns, ofTask(name))
	}
	return former
}

var strangers = []string{"eth0", "net1", "net2", "net3", "net4", "net5"}

// TestSwappedPath: whenever the path of a namespace is given to another one, that keeps what it has and
// gets nothing; what was attached is removed from the namespace that a task keeps.
func TestSwappedPath(t *testing.T) {
	attached := setup(runtimeRequest)
	bothExecutors(t, func(t *testing.T, i installation) {
		for name, test := range map[string]struct {
			before, operation func(w *world) error
			// attaches is whether the operation fails when the path is swapped meanwhile; before it the
			// stranger's namespace is the one that is meant.
			attaches bool
		}{
			"Setup":    {func(*world) error { return nil }, attached, true},
			"Extend":   {func(*world) error { return nil }, extend(runtimeRequest), true},
			"Detach":   {extend(runtimeRequest), func(w *world) error { return w.Detach(w.ctx, "runtime", "net2") }, false},
			"Teardown": {attached, teardown("runtime"), false},
			"reattach": {func(w *world) error {
				err := attached(w)
				w.namespaces.removeInterface(runtimeNetns, "net2")
				return err
			}, reattach, false},
			"Check": {attached, func(w *world) error {
				_, err := w.Check(w.ctx, "runtime")
				return err
			}, false},
		} {
			t.Run(name, func(t *testing.T) {
				at := 0
				if test.attaches {
					at = 1
				}
				for trySwap(t, i, at, test.before, test.operation, test.attaches) {
					at++
				}
			})
		}
	})
}

// trySwap swaps at the call of a plugin with a number, before or after its effect; before the operation for 0.
// It tells whether there was one.
func trySwap(t *testing.T, i installation, at int, before, operation func(w *world) error, attaches bool) bool {
	t.Helper()
	w := newWorld(t, i)
	w.namespaces.handled = true
	if err := before(w); err != nil {
		t.Fatal(err)
	}
	var former *fakeNamespace
	calls := 0
	if at == 0 {
		former = swap(w)
	}
	w.onCall = func(int, bool) {
		if calls++; calls == at && former == nil {
			former = swap(w)
		}
	}
	err := operation(w)
	w.onCall = nil
	if former == nil {
		return false
	}
	if attaches && err == nil {
		t.Errorf("swapped at call %d: it succeeds", at)
	}
	if err := w.Teardown(t.Context(), "runtime"); err != nil {
		t.Errorf("swapped at call %d: Teardown: %v", at, err)
	}
	for _, name := range strangers {
		requireOfTask(w, name)
	}
	if got := w.namespaces.interfaces(runtimeNetns); !slices.Equal(got, strangers) {
		t.Errorf("swapped at call %d: the stranger's namespace has %v", at, got)
	}
	w.namespaces.at[runtimeNetns] = former
	w.wantNothing()
	if t.Failed() {
		t.Fatalf("swapped at call %d of %q: %v", at, w.killer.seen, err)
	}
	return true
}
