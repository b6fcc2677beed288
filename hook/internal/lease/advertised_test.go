// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package lease

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/state"
)

// advertising is a host with an attachment that has its addresses by router advertisements on record.
func advertising(t *testing.T, addresses ...string) *world {
	w := newWorld(t)
	a := w.read()
	a.DHCP, a.AwaitRA = nil, true
	w.advertise(addresses...)
	a.Advertised = w.advertised
	var err error
	if a.Status, err = onrecord.Readvertise(a); err != nil {
		t.Fatal(err)
	}
	w.rewrite(a)
	return w
}

// rewrite records the attachment as it is now.
func (w *world) rewrite(a state.Attachment) {
	w.t.Helper()
	lock, err := w.env(nil).Store.Lock(w.t.Context(), "a")
	if err != nil {
		w.t.Fatal(err)
	}
	defer lock.Unlock()
	if err := lock.Write(a); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) advertise(addresses ...string) {
	w.advertised = nil
	for _, text := range addresses {
		w.advertised = append(w.advertised, netip.MustParsePrefix(text))
	}
}

// look compares the host with its records once.
func (w *world) look(intercept func(op, path string, change func() error) error) error {
	w.t.Helper()
	env := w.env(intercept)
	for record, err := range env.Store.Leases().List(w.t.Context()) {
		if err != nil {
			w.t.Fatal(err)
		}
		if err := lookAt(w.t.Context(), env, record); err != nil {
			return err
		}
	}
	return nil
}

// TestAdvertised: what routers change is on record, in what is told of the attachment, and an event; no address of its plugins is touched.
// What is the same is not written.
func TestAdvertised(t *testing.T) {
	w := advertising(t, "fd00:1::5/64")
	for _, step := range []struct{ now, observed string }{
		{"fd00:1::5/64", ""},
		{"fd00:1::5/64 fd00:2::5/64", "lease done <nil>"},
		{"fd00:2::5/64", "lease done <nil>"},
		{"", "lease failed no router gives net0 an IPv6 address any more"},
		{"", ""},
		{"fd00:3::5/64", "lease done <nil>"},
	} {
		w.observed = nil
		w.advertise(strings.Fields(step.now)...)
		if err := w.look(nil); err != nil {
			t.Fatal(err)
		}
		a := w.read()
		seen, err := onrecord.ReadStatus(a)
		if err != nil {
			t.Fatal(err)
		}
		told := append([]netip.Prefix{first().Address}, w.advertised...)
		if !slices.Equal(a.Advertised, w.advertised) || !slices.Equal(seen.Addresses, told) || fmt.Sprint(seen.Configured) != "[10.0.0.5/24]" || len(seen.Gateways) != 1 {
			t.Errorf("of %q on record is %s, seen %+v", step.now, a.Advertised, seen)
		}
		if got := strings.Join(w.observed, "; "); got != step.observed {
			t.Errorf("of %q an event is %q, want %q", step.now, got, step.observed)
		}
		described, err := onrecord.Describe(state.Record{Attachments: []state.Attachment{a}})
		if err != nil {
			t.Fatal(err)
		}
		result, err := onrecord.ParseResult(described.Attachments[0].Result)
		if err != nil || !slices.Equal(onrecord.InterfaceAddresses(result, "net0"), told) {
			t.Errorf("of %q the result is %s, %v", step.now, described.Attachments[0].Result, err)
		}
	}
}

// TestNotFollowed: attachments that do not ask for it, that something else works on, or whose namespace is gone, stay as they are.
func TestNotFollowed(t *testing.T) {
	for name, change := range map[string]func(w *world, a *state.Attachment){
		"not asked for":         func(_ *world, a *state.Attachment) { a.AwaitRA = false },
		"is removed":            func(_ *world, a *state.Attachment) { a.Phase = state.Deleting },
		"is attached again":     func(_ *world, a *state.Attachment) { a.FormerResult = a.Result },
		"the namespace is gone": func(w *world, _ *state.Attachment) { w.gone = true },
	} {
		w := advertising(t, "fd00:1::5/64")
		a := w.read()
		change(w, &a)
		w.rewrite(a)
		w.advertise("fd00:2::5/64")
		if err := w.look(nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := w.read(); fmt.Sprint(got.Advertised) != "[fd00:1::5/64]" || w.observed != nil {
			t.Errorf("%s: on record is %s, observed %q", name, got.Advertised, w.observed)
		}
	}
}

// TestKilledWhileItFollows: after a death at any change of the records the next agent has them right.
func TestKilledWhileItFollows(t *testing.T) {
	for n := 0; ; n++ {
		w := advertising(t, "fd00:1::5/64")
		w.advertise("fd00:2::5/64")
		left, killed := n, false
		err := w.look(func(_, _ string, change func() error) error {
			if killed = killed || left == 0; killed {
				return errKilled
			}
			left--
			return change()
		})
		if err := w.look(nil); err != nil {
			t.Fatal(err)
		}
		if got := w.read(); fmt.Sprint(got.Advertised) != "[fd00:2::5/64]" {
			t.Errorf("killed at change %d, on record is %s", n, got.Advertised)
		}
		if !killed {
			if err != nil || n == 0 {
				t.Errorf("after %d changes: %v", n, err)
			}
			return
		}
	}
}
