// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
)

func detachTask(w *world) error { return w.Detach(w.ctx, "task", "net1") }

// wantRestored: of the attachments only left is there, and the runtime's default route is
// back.
func wantRestored(t *testing.T, w *world, left, after string) {
	t.Helper()
	if got := w.namespaces.interfaces(runtimeNetns); !slices.Equal(got, []string{"lo", left}) {
		t.Fatalf("after %s the namespace has %v", after, got)
	}
	if got := w.namespaces.at[runtimeNetns].routes; !slices.Equal(got, []netns.Route{runtimeRoute}) {
		t.Errorf("after %s the default routes are %v, want %v", after, got, runtimeRoute)
	}
}

// TestRestoredOnce: a default route that was restored is not on record any more. When the
// runtime removes it, no further call brings it back.
func TestRestoredOnce(t *testing.T) {
	w := newWorld(t, install(t))
	if err := inTurn(extend(taskRequest), detachTask)(w); err != nil {
		t.Fatal(err)
	}
	wantRestored(t, w, "net2", "Detach")
	w.namespaces.at[runtimeNetns].routes = nil // by the runtime
	if err := collect(w); err != nil {
		t.Error(err)
	}
	if got := w.namespaces.at[runtimeNetns].routes; len(got) > 0 {
		t.Errorf("GC made the default routes %v", got)
	}
}

// TestRestoredAfterKill: a Detach that was killed is repeated. The default route is
// restored, also when the interface is no attachment any more.
func TestRestoredAfterKill(t *testing.T) {
	w := killable{find: extend(taskRequest)}.world(t, install(t))
	found := w.keep(t)
	for _, made := range []bool{false, true} {
		for n := 0; ; n++ {
			found(t)
			w.killAt(n, made)
			_ = detachTask(w) // it may have been killed
			if !w.killer.dead {
				break
			}
			seen := w.killer.seen
			w.bury()
			var gone *NotAttachedError
			if err := detachTask(w); err != nil && !errors.As(err, &gone) {
				t.Errorf("killed after %v: %v", seen, err)
			}
			wantRestored(t, w, "net2", "a kill at "+seen[len(seen)-1])
		}
	}
}

// TestTeardownThatFailsRestoresRoute: the attachment with the default route is removed and
// another one cannot be. The namespace of the runtime, which lives, gets its own
// default route back, at the latest when GC has tried again.
func TestTeardownThatFailsRestoresRoute(t *testing.T) {
	i := install(t)
	for name, test := range map[string]struct {
		find, call func(*world) error
		stuck      []string
		left       string
	}{
		"Release":              {extend(taskRequest), release, []string{"DEL ipvlan net2", "clean net2"}, "net2"},
		"Teardown of Extend":   {extend(taskRequest), teardown("task"), []string{"DEL ipvlan net2", "clean net2"}, "net2"},
		"Teardown of a set-up": {setup(runtimeRequest), teardown("runtime"), []string{"DEL portmap net1", "clean net1"}, "net1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, i)
			if err := test.find(w); err != nil {
				t.Fatal(err)
			}
			for _, call := range test.stuck {
				w.failing[call] = errStuck
			}
			if err := test.call(w); !errors.Is(err, errStuck) {
				t.Fatal(err)
			}
			wantRestored(t, w, test.left, name)
			_ = collect(w) // it fails for the same reason
			wantRestored(t, w, test.left, "GC after "+name)
		})
	}
}
