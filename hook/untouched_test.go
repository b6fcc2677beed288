// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// TestRollbackKeepsWhatItDidNotAttach: an Extend that fails removes only what it attached
// itself. Another program made net2 meanwhile, and the ADD for net2 never began.
func TestRollbackKeepsWhatItDidNotAttach(t *testing.T) {
	gaveUp := errors.New("the caller gave up")
	for name, cause := range map[string]error{"the ADD before it fails": nil, "the caller gives up": gaveUp} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, nil)
			m.network(t, "a", "first-a") // unknown plugins may set a default route: they are called in turn
			m.network(t, "b", "first-b")
			path := m.namespaces.create("/run/netns/runtime")
			m.namespaces.add(path, netns.Interface{Name: "eth0", Up: true})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
				if c.String() != "ADD first-a net1" {
					return false, nil, nil
				}
				m.namespaces.add(path, netns.Interface{Name: "net2", Up: true}) // by another program
				if cause != nil {
					cancel(cause)
				}
				return true, nil, permanent
			}
			if _, err := m.Extend(ctx, Request{ID: "w1", Netns: path, Networks: named("a", "b")}); !errors.Is(err, gaveUp) && !errors.Is(err, permanent) {
				t.Fatal(err)
			}
			calls := m.exec.names()
			if slices.Contains(calls, "ADD first-b net2") {
				t.Fatalf("the ADD for net2 began: %v", calls)
			}
			if got := m.namespaces.interfaces(path); !slices.Contains(got, "net2") {
				t.Errorf("the namespace has %v, want net2 of another program; calls: %v", got, calls)
			}
		})
	}
}

// stuckBridges is a host whose bridges cannot be found at once.
type stuckBridges struct {
	*fakeHost
	find func() error
}

func (h stuckBridges) FindBridge(string) (netns.Bridge, bool, error) {
	return netns.Bridge{}, false, h.find()
}

// TestBridgeThatCannotBePinned: an ADD has not begun while the MTU of its bridge is
// pinned. When that fails, or the caller gives up meanwhile, there is nothing to undo.
func TestBridgeThatCannotBePinned(t *testing.T) {
	busy := errors.New("the bridge is busy")
	for name, test := range map[string]struct {
		cause, err error
	}{
		"the bridge cannot be pinned": {nil, busy},
		"the caller gives up":         {errors.New("the caller gave up"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			const path = "/run/netns/runtime"
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var namespaces *fakeNamespaces
			m := newMemory(t, func(c *Config) {
				c.Host = stuckBridges{&fakeHost{}, func() error {
					namespaces.add(path, netns.Interface{Name: "net1", Up: true}) // by another program
					if test.cause != nil {
						cancel(test.cause)
					}
					return test.err
				}}
			})
			namespaces = m.namespaces
			m.network(t, "lan", `{"type": "bridge", "mtu": 1500}`)
			m.namespaces.create(path)
			_, err := m.Extend(ctx, Request{ID: "w1", Netns: path, Networks: []selection.Element{{Name: "lan", MTU: 1400}}})
			if want := cmp.Or(test.cause, test.err); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			if calls := m.exec.names(); len(calls) > 0 {
				t.Errorf("calls %v, want none", calls)
			}
			if got := m.namespaces.interfaces(path); !slices.Equal(got, []string{"net1"}) {
				t.Errorf("the namespace has %v, want net1 of another program", got)
			}
		})
	}
}

// TestKilledBeforeAdd: nor does the process that comes after a killed one remove what
// another program has made meanwhile, if the ADD for it never began.
func TestKilledBeforeAdd(t *testing.T) {
	i := install(t)
	for name, k := range map[string]killable{
		"Extend": {call: extend(taskInLine), id: "task"},
		"Setup":  {call: setup(inLineRequest), id: "runtime"},
	} {
		t.Run(name, func(t *testing.T) {
			w := k.world(t, i)
			w.killAt(slices.Index(k.effects(t, i), "ADD portmap net1"), true)
			_ = k.call(w) // a dead process returns nothing
			w.bury()
			w.namespaces.add(runtimeNetns, netns.Interface{Name: "net2", Up: true}) // by another program
			if err := collect(w); err != nil {
				t.Error(err)
			}
			if got := w.namespaces.interfaces(runtimeNetns); !slices.Equal(got, []string{"lo", "net2"}) {
				t.Errorf("the namespace has %v, want net2 of another program", got)
			}
			w.namespaces.removeInterface(runtimeNetns, "net2")
			w.wantNothing()
		})
	}
}

// TestPlannedIsNotBelieved: after a power cut, and where a line is damaged, the record may
// say that ADD has not begun although it has.
func TestPlannedIsNotBelieved(t *testing.T) {
	i := install(t)
	for name, happens := range map[string]func(w *world) error{
		"a power cut": reboot,
		"damage": func(w *world) error {
			path := filepath.Join(w.config.StateDir, "allocations", "runtime", "journal")
			data, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, append(data, "damage\n"...), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := killable{find: inTurn(setup(runtimeRequest), recordPlanned("runtime"), happens)}.world(t, i)
			if err := w.Teardown(t.Context(), "runtime"); err != nil {
				t.Error(err)
			}
			w.wantNothing()
		})
	}
}

// recordPlanned makes the record of an allocation say that no ADD has begun.
func recordPlanned(id string) func(*world) error {
	return rewritten(id, func(a *state.Attachment) {
		a.Phase, a.Planned, a.Result, a.Status = state.Adding, true, nil, nil
	})
}
