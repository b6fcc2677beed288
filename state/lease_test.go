// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/internal/dhcp"
)

// leased is an attachment with a lease.
func leased(iface string) Attachment {
	a := attachment(iface, "")
	a.DHCP = &dhcp.Lease{}
	return a
}

// TestLeased: the records that have leases are found by their marks, which are set before the record has one, and leave with it.
func TestLeased(t *testing.T) {
	s := open(t)
	for id, a := range map[string]Attachment{"other": attachment("net1", ""), "leased": leased("net1")} {
		l := lock(t, s, id)
		must(t, l.Begin(Allocation{ID: id, Mode: ModeSetup}, []Attachment{attachment("net1", "")}))
		must(t, l.Write(a))
		l.Unlock()
	}
	killed := lock(t, s, "killed") // before it had a record
	advertised := attachment("net1", "")
	advertised.AwaitRA = true
	must(t, killed.markLeases([]Attachment{advertised}))
	must(t, killed.file.Close())
	var found []string
	for r, err := range s.Leases().List(t.Context()) {
		must(t, err)
		found = append(found, r.Allocation.ID)
	}
	var kept Kept[string]
	for range 2 {
		must(t, kept.EachLeased(t.Context(), s, func(r Record) (string, bool) { return r.Allocation.ID, true }, func(id string) { found = append(found, id) }))
	}
	if !slices.Equal(found, []string{"leased", "leased", "leased"}) {
		t.Errorf("found %v, want leased each time", found)
	}
	l := lock(t, s, "leased")
	must(t, l.Clear())
	l.Unlock()
	killed.release()
	must(t, os.Remove(s.lockPath("killed")))
	must(t, s.RemoveStale())
	if left, err := marked(filepath.Join(s.dir, leaseMarks)); err != nil || len(left) != 0 {
		t.Errorf("marks left: %v, %v", left, err)
	}
}

// TestUnmarked: a lease whose allocation cannot be marked is not recorded: it would not be extended.
func TestUnmarked(t *testing.T) {
	s := open(t)
	l := lock(t, s, "a")
	defer l.Unlock()
	must(t, l.Begin(Allocation{ID: "a", Mode: ModeSetup}, []Attachment{attachment("net1", "")}))
	must(t, os.Remove(filepath.Join(s.dir, leaseMarks)))
	if err := l.Write(leased("net1")); err == nil {
		t.Error("it is recorded")
	}
	if r, err := s.Read("a"); err != nil || r.Attachments[0].DHCP != nil {
		t.Errorf("%+v, %v", r, err)
	}
}
