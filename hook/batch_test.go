// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

func named(elements ...string) (list []selection.Element) {
	for _, name := range elements {
		list = append(list, selection.Element{Name: name})
	}
	return list
}

// TestBatches: each call of Extend attaches all its networks or none, and leaves the
// others as they are.
func TestBatches(t *testing.T) {
	i := install(t)
	errFails := errors.New("no such VLAN")
	for name, test := range map[string]struct {
		networks [][]selection.Element
		failing  string
		fails    []bool
		want     []string
	}{
		"one by one":              {[][]selection.Element{named("web"), named("backup")}, "", []bool{false, false}, []string{"eth0", "net1", "net2", "net3"}},
		"both at once":            {[][]selection.Element{named("web", "backup")}, "", []bool{false}, []string{"eth0", "net1", "net2", "net3"}},
		"the same once more":      {[][]selection.Element{named("web"), named("web")}, "", []bool{false, false}, []string{"eth0", "net1", "net2"}},
		"the same under its name": {[][]selection.Element{named("web"), {{Name: "web", Interface: "again"}}}, "", []bool{false, false}, []string{"eth0", "net1", "net2", "again"}},
		"the second fails":        {[][]selection.Element{named("web"), named("backup")}, "ADD ipvlan net3", []bool{false, true}, []string{"eth0", "net1", "net2"}},
		"one of two fails":        {[][]selection.Element{named("web", "backup")}, "ADD ipvlan net3", []bool{true}, []string{"eth0", "net1"}},
		"the end of a chain":      {[][]selection.Element{named("web")}, "ADD portmap net2", []bool{true}, []string{"eth0", "net1"}},
		"a name that is taken":    {[][]selection.Element{{{Name: "web", Interface: "net1"}}}, "", []bool{true}, []string{"eth0", "net1"}},
		"a network of none":       {[][]selection.Element{named("none")}, "", []bool{true}, []string{"eth0", "net1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := killable{find: setup(ownRequest)}.world(t, i)
			if test.failing != "" {
				w.failing[test.failing] = errFails
			}
			for n, networks := range test.networks {
				if _, err := w.Extend(t.Context(), Request{ID: "own", Networks: networks}); (err != nil) != test.fails[n] {
					t.Errorf("call %d: %v", n, err)
				}
			}
			a, err := w.Status(t.Context(), "own")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, attachment := range a.Attachments {
				got = append(got, attachment.Interface)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("attached are %v, want %v", got, test.want)
			}
			w.wantRecorded()
			if err := w.Teardown(t.Context(), "own"); err != nil {
				t.Error(err)
			}
			w.wantNothing()
		})
	}
}

// TestExtendIsRefused before a plugin runs.
func TestExtendIsRefused(t *testing.T) {
	i := install(t)
	web := named("web")
	for name, test := range map[string]struct {
		request Request
		find    func(*world) error
		kind    errdefs.Kind
	}{
		"with a primary":       {Request{ID: "own", Primary: &web[0]}, nil, errdefs.Refused},
		"with defaults":        {Request{ID: "own", Defaults: web}, nil, errdefs.Refused},
		"with nothing":         {Request{ID: "own"}, nil, errdefs.Refused},
		"with a relative path": {Request{ID: "own", Netns: "netns", Networks: web}, nil, errdefs.Refused},
		"of what is not there": {Request{ID: "other", Networks: web}, nil, errdefs.NotFound},
		"in another namespace": {Request{ID: "own", Netns: runtimeNetns, Networks: web}, nil, errdefs.Refused},
		"without a namespace": {Request{ID: "own", Networks: web}, func(w *world) error {
			w.lose(filepath.Join(w.config.NetnsDir, "own"))
			return nil
		}, errdefs.Refused},
		"in a namespace of none": {Request{ID: "other", Netns: "/nowhere", Networks: web}, nil, errdefs.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			w := killable{find: setup(ownRequest)}.world(t, i)
			if test.find != nil {
				if err := test.find(w); err != nil {
					t.Fatal(err)
				}
			}
			calls := w.calls
			_, err := w.Extend(t.Context(), test.request)
			if err == nil || errdefs.Of(err) != test.kind {
				t.Errorf("got %v of kind %v, want %v", err, errdefs.Of(err), test.kind)
			}
			if w.calls != calls {
				t.Errorf("%d calls of plugins", w.calls-calls)
			}
		})
	}
}

// TestExtendInANewNamespace: what was attached in a namespace that is gone is removed
// before anything is attached in the next one.
func TestExtendInANewNamespace(t *testing.T) {
	w := killable{find: extend(taskRequest)}.world(t, install(t))
	w.lose(runtimeNetns)
	w.namespaces.add(w.namespaces.create(runtimeNetns), loopback)
	w.namespaces.at[runtimeNetns].routes = []netns.Route{runtimeRoute}
	if err := extend(taskRequest)(w); err != nil {
		t.Fatal(err)
	}
	w.wantRecorded()
	if got := w.namespaces.interfaces(runtimeNetns); !slices.Equal(got, []string{"lo", "net1", "net2"}) {
		t.Errorf("interfaces %v", got)
	}
	if err := w.Release(t.Context(), "task", "t1"); err != nil {
		t.Error(err)
	}
	w.wantNothing()
}

// TestRetriesOfExtend: what could not be undone is told by the next call, until it is
// removed.
func TestRetriesOfExtend(t *testing.T) {
	w := killable{find: setup(ownRequest)}.world(t, install(t))
	stuck := errors.New("the device is busy")
	w.failing = map[string]error{"ADD macvlan further2": permanent, "DEL bridge further1": stuck, "clean further1": stuck}
	for range 2 {
		if err := extend(furtherInLine)(w); !errors.Is(err, stuck) && err == nil {
			t.Errorf("got %v, want what is stuck", err)
		}
	}
	a, err := w.Status(t.Context(), "own")
	if err != nil || len(a.Attachments) != 3 || a.Attachments[2].Phase != state.Pending {
		t.Errorf("recorded is %+v, %v", a, err)
	}
	w.failing = nil
	if err := extend(furtherInLine)(w); err != nil {
		t.Error(err)
	}
	w.wantRecorded()
}

// TestTasks: Release removes what was attached for a task, and nothing else.
func TestTasks(t *testing.T) {
	w := killable{find: setup(runtimeRequest)}.world(t, install(t))
	for n := range 2 {
		r := Request{ID: "runtime", Netns: runtimeNetns, Task: fmt.Sprintf("t%d", n), Networks: []selection.Element{{Name: "backup", Interface: fmt.Sprintf("task%d", n)}}}
		if err := extend(r)(w); err != nil {
			t.Fatal(err)
		}
	}
	for task, want := range map[string][]string{"unknown": {"lo", "net1", "net2", "task0", "task1"}, "t0": {"lo", "net1", "net2", "task1"}} {
		if err := w.Release(t.Context(), "runtime", task); err != nil {
			t.Error(err)
		}
		if got := w.namespaces.interfaces(runtimeNetns); !slices.Equal(got, want) && task == "t0" {
			t.Errorf("Release of %s: interfaces %v, want %v", task, got, want)
		}
		w.wantRecorded()
	}
	if err := w.Release(t.Context(), "unknown", "t0"); err != nil {
		t.Errorf("of an unknown allocation: %v", err)
	}
}

// TestDetachOne: an attachment of an allocation that stays.
func TestDetachOne(t *testing.T) {
	i := install(t)
	for name, test := range map[string]struct {
		id, iface string
		want      any
	}{
		"an extra one":          {"own", "net1", nil},
		"of Extend":             {"own", "net3", nil},
		"the primary":           {"own", "eth0", new(*RequestError)},
		"none":                  {"own", "net9", new(*NotAttachedError)},
		"of what is not known":  {"other", "net1", nil},
		"of an ID that is none": {"a/b", "net1", new(interface{ Kind() errdefs.Kind })},
	} {
		t.Run(name, func(t *testing.T) {
			w := killable{find: inTurn(setup(ownRequest), extend(extendRequest))}.world(t, i)
			err := w.Detach(t.Context(), test.id, test.iface)
			switch {
			case test.id == "other":
				if !errors.Is(err, state.ErrNotFound) {
					t.Errorf("got %v, want ErrNotFound", err)
				}
			case test.want == nil:
				if err != nil {
					t.Error(err)
				}
				var gone *NotAttachedError
				if err := w.Detach(t.Context(), test.id, test.iface); !errors.As(err, &gone) || slices.Contains(gone.Attached, test.iface) || errdefs.Of(err) != errdefs.Refused || err.Error() == "" {
					t.Errorf("again: %v, want *NotAttachedError", err)
				}
			case !errors.As(err, test.want) || errdefs.Of(err) != errdefs.Refused:
				t.Errorf("got %v, want %T", err, test.want)
			}
			w.wantRecorded()
		})
	}
}
