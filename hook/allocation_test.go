// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// TestNetworkStatus: the form that the network plumbing working group defines.
func TestNetworkStatus(t *testing.T) {
	a := &Allocation{Attachments: []Attachment{
		{Network: "web", Interface: "eth0", Primary: true, Observed: Observed{
			Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24"), netip.MustParsePrefix("fd00::1/64")}, MAC: "02:00:00:00:00:01", MTU: 1500,
			Gateways: []netip.Addr{netip.MustParseAddr("10.0.0.254")}, DNS: DNS{Servers: []string{"192.0.2.53"}, Searches: []string{"example.org"}, Options: []string{"ndots:1"}},
		}},
		{Network: "storage", Interface: "net1"},
	}}
	data, err := json.Marshal(a.NetworkStatus())
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"name":"web","interface":"eth0","ips":["10.0.0.1","fd00::1"],"mac":"02:00:00:00:00:01","mtu":1500,"default":true,` +
		`"dns":{"nameservers":["192.0.2.53"],"search":["example.org"],"options":["ndots:1"]},"gateway":["10.0.0.254"]},` +
		`{"name":"storage","interface":"net1","dns":{}}]`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Error(diff)
	}
	if got := len(a.Addresses()); got != 2 {
		t.Errorf("%d addresses", got)
	}
}

// TestListOfAllocations: one that cannot be read does not hide the others.
func TestListOfAllocations(t *testing.T) {
	w := killable{find: inTurn(setup(ownRequest), setup(runtimeRequest))}.world(t, install(t))
	journal := filepath.Join(w.config.StateDir, "allocations", "own", "journal")
	if err := os.Remove(journal); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(journal, 0o700); err != nil {
		t.Fatal(err)
	}
	var damaged, read []string
	for a, err := range w.List(t.Context()) {
		switch {
		case err != nil:
			t.Error(err)
		case len(a.Damaged) > 0:
			damaged = append(damaged, a.ID)
		default:
			read = append(read, a.ID)
		}
	}
	if !slices.Equal(damaged, []string{"own"}) || !slices.Equal(read, []string{"runtime"}) {
		t.Errorf("damaged %v, read %v", damaged, read)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGaveUp)
	for _, err := range w.List(ctx) {
		if !errors.Is(err, errGaveUp) {
			t.Errorf("got %v, want the cause", err)
		}
	}
}

// TestStatusThatCannotBeRead fails by the allocation that has it.
func TestStatusThatCannotBeRead(t *testing.T) {
	m := newMemory(t, nil)
	record(t, m.Engine, "a", state.Attachment{Network: "n", Interface: "eth0", Batch: onrecord.SetupBatch, Phase: state.Attached, Status: []byte(`{"addresses": 1}`)})
	if _, err := m.Status(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "eth0") {
		t.Errorf("Status: %v", err)
	}
	var unreadable *state.UnreadableError
	for _, err := range m.List(t.Context()) {
		if !errors.As(err, &unreadable) || unreadable.ID != "a" {
			t.Errorf("List: %v", err)
		}
	}
}

// TestRecordIsGone while the allocation lives: it is neither set up again nor dead.
func TestRecordIsGone(t *testing.T) {
	w := killable{find: setup(ownRequest)}.world(t, install(t))
	if err := w.Forget(t.Context(), "own"); !errors.Is(err, ErrAlive) || len(recorded(t, w.Engine)) != 1 {
		t.Errorf("Forget: %v, want ErrAlive, and the record", err)
	}
	lock, err := w.env.Store.Lock(t.Context(), "own")
	if err == nil {
		err = lock.Clear()
		lock.Unlock()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := setup(ownRequest)(w); errdefs.Of(err) != errdefs.Conflict || !strings.Contains(err.Error(), "allocation own exists in ") {
		t.Errorf("Setup while it lives: %v, want that its record is lost", err)
	}
	if err := w.TearDownDead(t.Context(), "own"); !errors.Is(err, ErrAlive) {
		t.Errorf("TearDownDead: %v, want ErrAlive", err)
	}
	if err := w.Teardown(t.Context(), "own"); err != nil { // from libcni's cache
		t.Error(err)
	}
	w.wantNothing()
}

// TestSetupIsRefused before a plugin runs, by the kind of its error.
func TestSetupIsRefused(t *testing.T) {
	i := install(t)
	web := selection.Element{Name: "web"}
	for name, test := range map[string]struct {
		request Request
		kind    errdefs.Kind
		is      error
	}{
		"another request":         {Request{ID: "own", Primary: &web}, errdefs.Conflict, ErrConflict},
		"another namespace":       {Request{ID: "own", Netns: runtimeNetns, Primary: ownRequest.Primary, Networks: ownRequest.Networks}, errdefs.Conflict, ErrConflict},
		"a fresh one":             {Request{ID: "own", Fresh: true, Primary: ownRequest.Primary, Networks: ownRequest.Networks}, errdefs.Conflict, ErrExists},
		"nothing":                 {Request{ID: "new"}, errdefs.Refused, nil},
		"no ID":                   {Request{Primary: &web}, errdefs.Refused, nil},
		"a relative path":         {Request{ID: "new", Netns: "netns", Primary: &web}, errdefs.Refused, nil},
		"an argument with ;":      {Request{ID: "new", Primary: &web, Args: map[string]string{"A": "1;B=2"}}, errdefs.Refused, nil},
		"an unknown network":      {Request{ID: "new", Primary: &selection.Element{Name: "none"}}, errdefs.Refused, nil},
		"an interface that is":    {Request{ID: "new", Netns: runtimeNetns, Networks: []selection.Element{{Name: "web", Interface: "lo"}}}, errdefs.Conflict, nil},
		"a namespace that is not": {Request{ID: "new", Netns: "/nowhere", Networks: []selection.Element{web}}, errdefs.Refused, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := killable{find: setup(ownRequest)}.world(t, i)
			calls := w.calls
			_, err := w.Setup(t.Context(), test.request)
			if err == nil || errdefs.Of(err) != test.kind || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("got %v of kind %v, want %v", err, errdefs.Of(err), test.kind)
			}
			if w.calls != calls || w.namespaces.created != 2 {
				t.Errorf("%d calls of plugins, %d namespaces", w.calls-calls, w.namespaces.created)
			}
			w.wantRecorded()
		})
	}
}

// TestSetupAgain: the same request returns what is set up, and runs no plugin.
func TestSetupAgain(t *testing.T) {
	w := killable{find: setup(ownRequest)}.world(t, install(t))
	calls := w.calls
	for name, r := range map[string]Request{
		"the same":                  ownRequest,
		"by an operator":            {ID: "own", Operator: true, DNS: ownRequest.DNS, Primary: ownRequest.Primary, Networks: ownRequest.Networks},
		"with the namespace's path": {ID: "own", Netns: filepath.Join(w.config.NetnsDir, "own"), DNS: ownRequest.DNS, Primary: ownRequest.Primary, Networks: ownRequest.Networks},
	} {
		a, err := w.Setup(t.Context(), r)
		if err != nil || len(a.Attachments) != 2 || w.calls != calls {
			t.Errorf("%s: %+v, %v, %d calls of plugins", name, a, err, w.calls-calls)
		}
	}
}
