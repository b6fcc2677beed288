// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/isolation/filter"
	"github.com/allocnet/allocnet/state"
)

// lacking is a host that lacks something for what is added. made is told of what makes it.
type lacking struct {
	filter.Kernel

	made func(what string) error
}

func (l lacking) Add(context.Context, filter.Rules, filter.Member) error {
	return errors.New("something is missing")
}

func (l lacking) Complete(context.Context, filter.Rules, filter.Member, filter.Source) error {
	return l.made("complete")
}

func (l lacking) Apply(context.Context, filter.Source) error { return l.made("apply") }

// TestLackingIsMadeByItself: what an attachment lacks is made of what is on record while no other attachment adds or removes its own: else the host
// would get what is just removed.
func TestLackingIsMadeByItself(t *testing.T) {
	for name, test := range map[string]struct {
		complete error
		want     string
	}{"the first of its kind": {nil, "complete "}, "more is missing": {errors.New("more"), "complete apply "}} {
		h, _ := newHostOnDisk(t)
		w, _, err := h.load()
		if err == nil {
			err = h.setInForce(w)
		}
		if err != nil {
			t.Fatal(err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		got := ""
		h.config.Filter = lacking{made: func(what string) error {
			got += what + " "
			if unlock, err := h.store.Isolation().RLock(ended); err == nil {
				unlock()
				t.Errorf("%s: others may be removed during %s", name, what)
			}
			if what == "complete" {
				return test.complete
			}
			return nil
		}}
		a := state.Attachment{Network: "n", Interface: "eth0", ContainerID: "a", Phase: state.Attached, Batch: state.Batch{Kind: state.BatchSetup}, Isolation: &state.Isolation{
			Level: "strict", Antispoof: true, End: "veth9", Bridge: "br9", MAC: "02:00:00:00:00:09", Addresses: []netip.Addr{netip.MustParseAddr("10.9.0.5")},
		}}
		lock, err := h.store.Lock(t.Context(), "a")
		if err == nil {
			err = lock.Begin(state.Allocation{ID: "a", Mode: state.ModeSetup}, []state.Attachment{a})
		}
		if err != nil {
			t.Fatal(err)
		}
		s := seam{t.Context(), operation.NewOperation(h.config, h.store, state.Record{Allocation: state.Allocation{ID: "a"}}), &a}
		if err := s.change(s.add, s.complete); err != nil || got != test.want {
			t.Errorf("%s: %v, made by %q, want %q", name, err, got, test.want)
		}
		lock.Unlock()
	}
}
