// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
)

// narrowable makes the network web of an installation one whose jobs may narrow their traffic, and which has no level.
func narrowable(t *testing.T) installation {
	t.Helper()
	i := isolated(t, isolation.None)
	file := filepath.Join(i.confDir, "web.conflist")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.Replace(string(text), `"isolation": "none"`, `"narrow": true, "antispoof": true`, 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return i
}

var narrowRequest = Request{
	ID: "own", Primary: &selection.Element{Name: "web", Interface: "eth0"}, Networks: []selection.Element{{Name: "web"}}, Narrowing: allocation.Narrowing{Ingress: "5432/tcp", Egress: "10.0.0.0/8, dns"},
}

// narrowExtension is of the same job.
var narrowExtension = Request{ID: "own", Networks: []selection.Element{{Name: "web"}, {Name: "web"}}}

// wantNarrowed: the host knows what the job leaves of so many attachments.
func (w *world) wantNarrowed(count int) {
	w.t.Helper()
	w.wantApart()
	if len(w.filter.members) != count {
		w.t.Errorf("the host knows %v, want %d", w.filter.ids(), count)
	}
	for id, m := range w.filter.members {
		if m.Ingress.String() != "5432/tcp" || m.Egress.String() != "10.0.0.0/8, 53/udp 53/tcp" {
			w.t.Errorf("the host knows %s as %+v", id, m)
		}
	}
}

// TestNarrowing: what a job leaves of its traffic is on record before the host gets anything for it, so a repair makes it again. An allocation
// that is extended is narrowed in full.
func TestNarrowing(t *testing.T) {
	w := newWorld(t, narrowable(t))
	w.filter.effect = func(name string, change func() error) error {
		if strings.HasPrefix(name, "guard ") {
			r, err := w.env.Store.Read("own")
			if err != nil || r.Attachments[0].Isolation.Narrowing != narrowRequest.Narrowing {
				t.Errorf("%s: on record is %+v, %v", name, r.Attachments, err)
			}
		}
		return change()
	}
	if err := setup(narrowRequest)(w); err != nil {
		t.Fatal(err)
	}
	w.wantNarrowed(2)
	clear(w.filter.members)
	if _, err := w.RepairAttachments(t.Context(), RepairRequest{Mode: RepairRules}); err != nil {
		t.Error(err)
	}
	w.wantNarrowed(2)
	if err := extend(narrowExtension)(w); err != nil {
		t.Fatal(err)
	}
	w.wantNarrowed(4)
	if err := setup(narrowRequest)(w); err != nil {
		t.Errorf("the same again: %v", err)
	}
	other := narrowRequest
	other.Narrowing.Egress = ""
	if err := setup(other)(w); !errors.Is(err, ErrConflict) {
		t.Errorf("with another narrowing: %v, want a conflict", err)
	}
	if err := teardown("own")(w); err != nil {
		t.Error(err)
	}
	w.wantNothing()
}

// TestKilledNarrowed: what is kept from attachments of a network without a level survives each kill.
func TestKilledNarrowed(t *testing.T) {
	further := extend(narrowExtension)
	killAll(t, narrowable(t), map[string]killable{
		"Setup":  {call: setup(narrowRequest), attach: setup(narrowRequest), id: "own", undone: true},
		"Extend": {find: setup(narrowRequest), call: further, again: further, attach: inTurn(setup(narrowRequest), further), id: "own", undone: true},
	})
}

// TestNarrowingRefused: a network permits it, or nothing is attached; a text with a mistake is refused before.
func TestNarrowingRefused(t *testing.T) {
	w := newWorld(t, isolated(t, isolation.Strict))
	var denied *policy.DeniedError
	if err := setup(narrowRequest)(w); !errors.As(err, &denied) || denied.Rule != "narrow" {
		t.Errorf("%v, want a denial by narrow", err)
	}
	for field, n := range map[string]allocation.Narrowing{"ingress": {Ingress: "dns"}, "egress": {Egress: "10.0.0.1"}} {
		r := narrowRequest
		r.Narrowing = n
		var refused *RequestError
		for verb, err := range map[string]error{"setup": setup(r)(w), "extend": extend(Request{ID: "own", Networks: []selection.Element{{Name: "web"}}, Narrowing: n})(w)} {
			if !errors.As(err, &refused) || refused.Field != field {
				t.Errorf("%s, %+v: %v", verb, n, err)
			}
		}
	}
	w.wantNothing()
}
