// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
	"github.com/allocnet/allocnet/state"
)

// TestAddDeniedOfLongID: the longest ID that an attachment has is one that comments of nftables have not, and its counts are shown.
func TestAddDeniedOfLongID(t *testing.T) {
	store, err := state.Open(t.TempDir())
	if err == nil {
		err = store.Isolation().SetInForce([]byte("{}"), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	id, asked := strings.Repeat("a", 128), 0
	counts := map[string]isolation.Denied{filter.CountedAs(id): {Packets: 3}}
	e := &operation.Env{Config: config.Config{Filter: counting{counts: counts, asked: &asked}}, Store: store}
	a := &allocation.Allocation{ID: id, Attachments: []allocation.Attachment{{Interface: "eth0", Primary: true}}}
	if err := AddDenied(t.Context(), e, a); err != nil || a.Attachments[0].Denied == nil || filter.CountedAs(id) == id {
		t.Errorf("%v, %+v", err, a.Attachments[0])
	}
}

// counting is a filter that has counted.
type counting struct {
	filter.Kernel
	counts map[string]isolation.Denied
	err    error
	asked  *int
}

func (c counting) Denied(context.Context) (map[string]isolation.Denied, error) {
	*c.asked++
	return c.counts, c.err
}

// TestAddDenied: counts are those of the attachment, and none is asked for where nothing is isolated.
func TestAddDenied(t *testing.T) {
	store, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	counts := map[string]isolation.Denied{"web-1": {Packets: 3, Bytes: 180, Forged: 1}, state.ContainerID("web-1", "net1"): {Packets: 7}, "gone": {Packets: 9}}
	e := &operation.Env{Config: config.Config{Filter: counting{counts: counts, asked: &asked}}, Store: store}
	a := &allocation.Allocation{ID: "web-1", Attachments: []allocation.Attachment{{Interface: "eth0", Primary: true}, {Interface: "net1"}, {Interface: "net2"}}}
	show := func() (all string) {
		for _, n := range a.Attachments {
			if n.Denied == nil {
				all += "- "
			} else {
				all += fmt.Sprint(n.Denied.Packets, "/", n.Denied.Bytes, "/", n.Denied.Forged, " ")
			}
		}
		return all
	}
	if err := AddDenied(t.Context(), e, a); err != nil || asked > 0 || show() != "- - - " {
		t.Errorf("nothing is isolated: %v, asked %d times, %s", err, asked, show())
	}
	if err := store.Isolation().SetInForce([]byte("{}"), nil); err != nil {
		t.Fatal(err)
	}
	if err := AddDenied(t.Context(), e, a); err != nil || asked != 1 || show() != "3/180/1 7/0/0 - " {
		t.Errorf("%v, asked %d times, %s", err, asked, show())
	}
	e.Config.Filter = counting{err: errors.New("not permitted"), asked: &asked}
	if err := AddDenied(t.Context(), e, a); err == nil {
		t.Error("no error")
	}
}
