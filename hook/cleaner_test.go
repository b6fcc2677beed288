// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// observations are an Observer that remembers.
type observations struct {
	mu   sync.Mutex
	seen []string
}

func (o *observations) Observe(seen Observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := fmt.Sprintf("%s %s %s %t", seen.Op, seen.Network, seen.Interface, seen.Err == nil)
	if seen.Reason != "" {
		text += " " + string(seen.Reason)
	}
	o.seen = append(o.seen, text)
}

// TestForcedCleanup of an attachment whose DEL fails, with each kind of cleaner.
func TestForcedCleanup(t *testing.T) {
	for name, test := range map[string]struct {
		cleaner  Cleaner
		recorded bool
		observed []string
	}{
		"succeeds": {cleanerFunc(func(_ context.Context, l []state.Leftover) []error { return make([]error, len(l)) }), false,
			[]string{"attach web eth0 true", "detach web eth0 false", "cleanup web eth0 true"}},
		"fails": {cleanerFunc(func(context.Context, []state.Leftover) []error { return []error{errors.New("no iptables")} }), true,
			[]string{"attach web eth0 true", "detach web eth0 false", "cleanup web eth0 false"}},
		"off": {NoCleaner, true, []string{"attach web eth0 true", "detach web eth0 false"}},
	} {
		t.Run(name, func(t *testing.T) {
			observed := &observations{}
			m := newMemory(t, func(c *Config) { c.Cleaner, c.Observers = test.cleaner, []Observer{observed} })
			m.network(t, "web", "bridge")
			m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
				return c.Verb == "DEL", nil, types.NewError(104, "no fabric", "")
			}
			if _, err := m.Setup(t.Context(), Request{ID: "w1", Primary: &selection.Element{Name: "web", Interface: "eth0"}}); err != nil {
				t.Fatal(err)
			}
			if err := m.Teardown(t.Context(), "w1"); (err != nil) != test.recorded {
				t.Errorf("Teardown: %v", err)
			}
			a, err := m.Status(t.Context(), "w1")
			if recorded := err == nil && a.Attachments[0].Phase == state.Pending; recorded != test.recorded {
				t.Errorf("pending: %t, want %t: %+v, %v", recorded, test.recorded, a, err)
			}
			if !slices.Equal(observed.seen, test.observed) {
				t.Errorf("observed %q, want %q", observed.seen, test.observed)
			}
		})
	}
}

// TestLostInterface: DEL of plugins succeeds and leaves rules if a task has deleted the interface.
func TestLostInterface(t *testing.T) {
	for name, deleted := range map[string]string{"deleted": "eth0", "another deleted": "net1", "nothing deleted": ""} {
		t.Run(name, func(t *testing.T) {
			var cleaned []string
			m := newMemory(t, func(c *Config) {
				c.Cleaner = cleanerFunc(func(_ context.Context, left []state.Leftover) []error {
					for _, s := range left[0].Suspects {
						cleaned = append(cleaned, s.Attachment.Interface)
					}
					return make([]error, len(left))
				})
			})
			m.network(t, "web", "bridge")
			a, err := m.Setup(t.Context(), Request{ID: "w1", Primary: &selection.Element{Name: "web", Interface: "eth0"}})
			if err != nil {
				t.Fatal(err)
			}
			m.namespaces.removeInterface(a.Netns, deleted)
			if err := m.Teardown(t.Context(), "w1"); err != nil {
				t.Error(err)
			}
			if isCleaned := slices.Equal(cleaned, []string{"eth0"}); isCleaned != (deleted == "eth0") {
				t.Errorf("forced cleanup of %q", cleaned)
			}
			if _, err := m.Status(t.Context(), "w1"); !errors.Is(err, state.ErrNotFound) {
				t.Errorf("it is on record: %v", err)
			}
		})
	}
}

// leavingCleaner finds something after each DEL that reports success.
type leavingCleaner struct {
	cleanerFunc
	asked *[]string
}

func (c leavingCleaner) Left(_ context.Context, _ state.Attachment, plugin string) error {
	*c.asked = append(*c.asked, plugin)
	return &cleanup.LeftError{Plugin: plugin}
}

// TestLeftByPlugins: a DEL that leaves something has failed, and the plugins before it in the chain, of which the first frees
// the lease, are not called. It is not looked for where forced cleanup follows anyway.
func TestLeftByPlugins(t *testing.T) {
	for _, present := range []bool{true, false} {
		var asked []string
		var found error
		m := newMemory(t, func(c *Config) {
			c.Cleaner = leavingCleaner{func(_ context.Context, left []state.Leftover) []error {
				found = left[0].Suspects[0].DelErr
				return make([]error, len(left))
			}, &asked}
		})
		m.network(t, "web", "bridge", "portmap")
		a, err := m.Setup(t.Context(), Request{ID: "w1", Primary: &selection.Element{Name: "web", Interface: "eth0"}})
		if err != nil {
			t.Fatal(err)
		}
		if !present {
			m.namespaces.removeInterface(a.Netns, "eth0")
		}
		if err := m.Teardown(t.Context(), "w1"); err != nil {
			t.Error(err)
		}
		var left *cleanup.LeftError
		if errors.As(found, &left) != present || slices.Equal(asked, []string{"portmap"}) != present {
			t.Errorf("the interface is present: %t: asked of %q, forced cleanup because of: %v", present, asked, found)
		}
	}
}

// TestCleanerByDefault is that of package cleanup, with the engine's cache of
// libcni.
func TestCleanerByDefault(t *testing.T) {
	c, ok := Config{CacheDir: "/x"}.WithDefaults().Cleaner.(*cleanup.Cleaner)
	if !ok || c.CacheDir != "/x" {
		t.Errorf("%T %+v", c, c)
	}
	left := []state.Leftover{{Suspects: []state.Suspect{{}}}, {Suspects: []state.Suspect{{DelErr: errors.New("x")}}}}
	if errs := NoCleaner.Clean(t.Context(), left); errs[0] != nil || errs[1] == nil || NoCleaner.Covers(state.Attachment{}) {
		t.Errorf("NoCleaner: %v", errs)
	}
}
