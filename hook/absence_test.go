// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// ofTask returns an interface that a task makes itself.
func ofTask(name string) netns.Interface {
	return netns.Interface{Name: name, MAC: "02:00:00:00:77:77", Up: true}
}

// requireOfTask: the task's interface is there still.
func requireOfTask(w *world, name string) {
	w.t.Helper()
	if !slices.ContainsFunc(w.namespaces.at[runtimeNetns].interfaces, func(i netns.Interface) bool { return i.Name == name && i.MAC == ofTask(name).MAC }) {
		w.t.Errorf("the task's interface %s is removed, the namespace has %v", name, w.namespaces.interfaces(runtimeNetns))
	}
}

// TestTaskKeepsInterface: what a task has made under the name of an attachment that is not there stays, however the
// attachment is removed; nothing of this is left.
func TestTaskKeepsInterface(t *testing.T) {
	bothExecutors(t, func(t *testing.T, i installation) {
		for name, lose := range map[string]func(w *world){
			"it was deleted": func(*world) {},
			"its reattachment has failed": func(w *world) {
				w.failing["ADD tuning net2"] = errStuck
				if err := reattach(w); !errors.Is(err, errStuck) {
					w.t.Errorf("%v, want %v", err, errStuck)
				}
			},
			"its reattachment was killed": func(w *world) {
				w.killer.at = "ADD macvlan net2"
				_ = reattach(w) // a dead process returns nothing
				w.bury()
			},
		} {
			for end, remove := range map[string]func(w *world) error{
				"Detach":         func(w *world) error { return w.Detach(w.ctx, "runtime", "net2") },
				"Teardown":       teardown("runtime"),
				"failing DEL":    inTurn(failing(teardown("runtime"), "DEL tuning net2", "DEL macvlan net2"), teardown("runtime")),
				"failing clean":  inTurn(func(w *world) error { _ = failing(teardown("runtime"), "clean net2")(w); return nil }, teardown("runtime")),
				"reattach, last": func(w *world) error { _ = reattach(w); return w.Teardown(w.ctx, "runtime") },
			} {
				t.Run(name+"/"+end, func(t *testing.T) {
					w, _ := damagedWorld(t, i)
					w.killer.onDeath = func() {}
					lose(w)
					w.killer.at = ""
					clear(w.failing)
					w.namespaces.add(runtimeNetns, ofTask("net2"))
					if err := remove(w); err != nil {
						t.Error(err)
					}
					requireOfTask(w, "net2")
					w.namespaces.removeInterface(runtimeNetns, "net2")
					if err := w.Teardown(t.Context(), "runtime"); err != nil {
						t.Error(err)
					}
					w.wantNothing()
				})
			}
		}
	})
}

// TestTaskKeepsInterfaceOfFailedAdd: a task makes an interface of the name while ADD runs, which is why that fails.
// It stays, and no attempt takes its place.
func TestTaskKeepsInterfaceOfFailedAdd(t *testing.T) {
	bothExecutors(t, func(t *testing.T, i installation) {
		for name, attach := range map[string]func(w *world) error{
			"Setup": setup(runtimeRequest), "Extend": extend(runtimeRequest),
			"reattach": func(w *world) error {
				if err := setup(runtimeRequest)(w); err != nil {
					return err
				}
				w.namespaces.removeInterface(runtimeNetns, "net2")
				return reattach(w)
			},
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, i)
				w.onCall = func(int, bool) {
					made := w.namespaces.interfaces(runtimeNetns)
					if last := w.killer.seen[len(w.killer.seen)-1]; last == "ADD macvlan net2" && !slices.Contains(made, "net2") && (name != "reattach" || slices.Contains(w.killer.seen, "DEL macvlan net2")) {
						w.failing[last] = errors.New("file exists")
						w.namespaces.add(runtimeNetns, ofTask("net2"))
					}
				}
				if err := attach(w); err == nil || !strings.Contains(err.Error(), "file exists") {
					t.Errorf("%v, want that of the name", err)
				}
				requireOfTask(w, "net2")
				w.onCall = nil
				clear(w.failing)
				if err := w.Teardown(t.Context(), "runtime"); err != nil {
					t.Error(err)
				}
				requireOfTask(w, "net2")
				w.namespaces.removeInterface(runtimeNetns, "net2")
				w.wantNothing()
			})
		}
	})
}

// TestAbortedAfterFailedAdd: nothing is left of an attempt that failed because of a task's interface, also if the
// caller gives up before the next one: what an attachment left whose ADD has not begun again is not looked for.
func TestAbortedAfterFailedAdd(t *testing.T) {
	bothExecutors(t, func(t *testing.T, i installation) {
		for name, attach := range map[string]func(w *world) error{"Setup": setup(runtimeRequest), "Extend": extend(runtimeRequest)} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, i)
				ctx, giveUp := context.WithCancelCause(t.Context())
				defer giveUp(nil)
				w.ctx = ctx
				w.onCall = func(_ int, done bool) {
					switch w.killer.seen[len(w.killer.seen)-1] {
					case "ADD tuning net2":
						if !done {
							w.failing["ADD tuning net2"] = transient
							w.namespaces.removeInterface(runtimeNetns, "net2")
							w.namespaces.add(runtimeNetns, ofTask("net2"))
						}
					case "DEL macvlan net2":
						giveUp(errGaveUp)
					}
				}
				if err := attach(w); !errors.Is(err, errGaveUp) {
					t.Errorf("%v, want %v", err, errGaveUp)
				}
				requireOfTask(w, "net2")
				w.onCall, w.ctx = nil, t.Context()
				clear(w.failing)
				if err := w.Teardown(t.Context(), "runtime"); err != nil {
					t.Error(err)
				}
				w.namespaces.removeInterface(runtimeNetns, "net2")
				w.wantNothing()
			})
		}
	})
}

// TestDeviceGoesByItsIndex: after the engine has looked, a task gives an interface of its own the name of the attachment,
// with an alias that the plugin would take for the name on the host. The plugin does not find it if forced cleanup knows
// all plugins of the network.
func TestDeviceGoesByItsIndex(t *testing.T) {
	for plugins, covered := range map[string]bool{`{"type": "host-device"}, {"type": "fakecni"}`: true, `{"type": "host-device"}, {"type": "other"}`: false} {
		var taken []string
		var left []state.Leftover
		m := newMemory(t, func(c *Config) {
			c.Cleaner = cleanerFunc(func(_ context.Context, l []state.Leftover) []error {
				left = l
				return make([]error, len(l))
			})
		})
		m.network(t, "web", "bridge")
		m.network(t, "card", strings.Split(plugins, ", ")...)
		m.host.links = map[string]bool{"lan0": !covered}
		m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
			path := c.Environ["CNI_NETNS"]
			switch c.String() {
			case "ADD host-device net1":
				m.namespaces.add(path, netns.Interface{Name: "net1", MAC: "02:00:00:00:00:01", Index: 7, Kind: "device", Alias: "lan0", Up: true})
				return true, []byte(`{"cniVersion": "1.1.0", "interfaces": [{"name": "net1", "mac": "02:00:00:00:00:01", "sandbox": "/x"}]}`), nil
			case "DEL host-device net1":
				if path != "" {
					taken = append(taken, path)
				}
			}
			return false, nil, nil
		}
		r := Request{ID: "a1", Primary: &selection.Element{Name: "web"}, Networks: []selection.Element{{Name: "card", Interface: "net1"}}}
		if _, err := m.Setup(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := m.Teardown(t.Context(), "a1"); err != nil {
			t.Error(err)
		}
		if covered != (len(taken) == 0) {
			t.Errorf("%s: DEL looks for the device in %q", plugins, taken)
		}
		if covered && (len(left) != 1 || len(left[0].Suspects) != 1 || left[0].Suspects[0].Attachment.DeviceIndex != 7 || left[0].Suspects[0].DelErr != nil) {
			t.Errorf("%s: forced cleanup is to remove %+v", plugins, left)
		}
	}
}
