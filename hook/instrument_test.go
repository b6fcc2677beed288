// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// TestObservations: what observers get of each call, once.
func TestObservations(t *testing.T) {
	attach := func(networks ...selection.Element) func(m *memory) {
		return func(m *memory) {
			_, _ = m.Setup(context.Background(), Request{ID: "w1", Primary: &selection.Element{Name: "web", Interface: "eth0"}, Networks: networks})
		}
	}
	for name, test := range map[string]struct {
		fail map[string]error
		do   []func(m *memory)
		want []string
	}{
		"attached and detached": {nil, []func(*memory){attach(), detach("w1"), detach("w1")},
			[]string{"attach web eth0 true", "detach web eth0 true"}},
		"attached again": {nil, []func(*memory){attach(), attach()}, []string{"attach web eth0 true"}},
		"retried": {map[string]error{"ADD bridge": types.NewError(11, "busy", "")}, []func(*memory){attach()},
			[]string{"attach web eth0 false", "detach web eth0 true rollback", "retry web eth0 false", "retry web eth0 false"}},
		"one of two fails": {map[string]error{"ADD macvlan": types.NewError(7, "no VLAN", "")}, []func(*memory){attach(selection.Element{Name: "storage"})},
			[]string{"attach storage net1 false", "attach web eth0 true", "detach storage net1 true rollback", "detach web eth0 true rollback"}},
		"one follows that fails": {map[string]error{"ADD bridge": types.NewError(7, "no bridge", "")}, []func(*memory){attach(selection.Element{Name: "dynamic"})},
			[]string{"attach web eth0 false", "detach web eth0 true rollback"}},
		"further networks": {nil, []func(*memory){attach(), attachFurther, attachFurther}, []string{"attach storage net1 true", "attach web eth0 true"}},
		"refused":          {nil, []func(*memory){attach(selection.Element{Name: "none"})}, []string{"attach   false"}},
		"invalid ID":       {nil, []func(*memory){func(m *memory) { _, _ = m.Setup(context.Background(), Request{ID: "../w1"}) }}, []string{"attach   false"}},
		"DEL fails": {map[string]error{"DEL bridge": types.NewError(999, "stuck", "")}, []func(*memory){attach(), detach("w1")},
			[]string{"attach web eth0 true", "cleanup web eth0 false", "detach web eth0 false"}},
		"nothing to detach": {nil, []func(*memory){detach("w2"), func(m *memory) { _ = m.Detach(context.Background(), "w1", "net9") }}, nil},
		"gc": {nil, []func(*memory){attach(), func(m *memory) {
			_, _ = m.GC(context.Background(), GCRequest{Abandoned: func() ([]string, error) { return []string{"w1"}, nil }})
		}}, []string{"attach web eth0 true", "detach web eth0 true gc"}},
	} {
		t.Run(name, func(t *testing.T) {
			observed := &observations{}
			m := newMemory(t, func(c *Config) {
				c.Observers = []Observer{observed}
				c.Cleaner = cleanerFunc(func(context.Context, []state.Leftover) []error { return []error{errors.New("no iptables")} })
			})
			// In line: the failure of the second comes after the first is attached.
			m.network(t, "web", `{"type": "bridge", "isDefaultGateway": true}`)
			m.network(t, "storage", `{"type": "macvlan", "isDefaultGateway": true}`)
			m.network(t, "dynamic", "alien") // may set a default route, so it follows web
			m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
				err := test.fail[c.Verb+" "+c.Plugin]
				return err != nil, nil, err
			}
			for _, do := range test.do {
				do(m)
			}
			slices.Sort(observed.seen)
			if !slices.Equal(observed.seen, test.want) {
				t.Errorf("observed %q, want %q", observed.seen, test.want)
			}
		})
	}
}

func detach(id string) func(m *memory) {
	return func(m *memory) { _ = m.Teardown(context.Background(), id) }
}

// attachFurther attaches w1 to a further network, as allocnet attach does.
func attachFurther(m *memory) {
	_, _ = m.SetupOrExtend(context.Background(), Request{ID: "w1", Networks: []selection.Element{{Name: "storage"}}})
}

// TestObservationOfACall has the ID, the networks and the outcome.
func TestObservationOfACall(t *testing.T) {
	var seen []Observation
	m := newMemory(t, func(c *Config) {
		c.Observers = []Observer{observerFunc(func(o Observation) { seen = append(seen, o) })}
	})
	for _, id := range []string{"w1", "../w1"} {
		_, _ = m.Setup(t.Context(), Request{ID: id, Networks: []selection.Element{{Name: "a"}}, Defaults: []selection.Element{{Name: "b"}}})
	}
	m.Collector().Observe(cleanup.Removed{Allocation: "w2", Networks: []string{"a"}, Objects: 3})
	if len(seen) != 3 {
		t.Fatalf("%+v", seen)
	}
	if o := seen[0]; o.Allocation != "w1" || !slices.Equal(o.Networks, []string{"a", "b"}) || o.Outcome() != config.Refused || o.Took <= 0 {
		t.Errorf("%+v", o)
	}
	if o := seen[1]; o.Allocation != "" || o.Outcome() != config.Refused {
		t.Errorf("%+v", o)
	}
	if o := seen[2]; o.Op != OpCleanup || o.Allocation != "w2" || o.Reason != "" || o.Objects != 3 || o.Outcome() != Done {
		t.Errorf("%+v", o)
	}
	if (Observation{Err: context.DeadlineExceeded}).Outcome() != Failed {
		t.Error("a timeout is no failure")
	}
}

// TestObservationOfARemovalThatDoesNotBegin has the job, which the record knows.
func TestObservationOfARemovalThatDoesNotBegin(t *testing.T) {
	var seen []Observation
	m := newMemory(t, func(c *Config) {
		c.Observers = []Observer{observerFunc(func(o Observation) { seen = append(seen, o) })}
	})
	m.network(t, "web", `{"type": "bridge"}`)
	identity := policy.Identity{Namespace: "prod", Job: "api"}
	if _, err := m.Setup(t.Context(), Request{ID: "w1", Identity: identity, Primary: &selection.Element{Name: "web"}}); err != nil {
		t.Fatal(err)
	}
	unlock, err := m.env.Store.Lock(t.Context(), "w1")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock.Unlock()
	ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	for name, call := range map[string]func() error{
		"Detach":  func() error { return m.Detach(ctx, "w1", "eth0") },
		"Release": func() error { return m.Release(ctx, "w1", "web") },
	} {
		seen = nil
		if err := call(); err == nil {
			t.Fatalf("%s has begun", name)
		}
		if len(seen) != 1 || seen[0].Op != OpDetach || seen[0].Identity != identity {
			t.Errorf("%s: %+v, want one that has the identity of the allocation", name, seen)
		}
	}
}

type observerFunc func(Observation)

func (f observerFunc) Observe(o Observation) { f(o) }
