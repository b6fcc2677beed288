// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/state"
)

// TestLeases: a lease that was lost is reported, and one that is to be extended if no agent does.
func TestLeases(t *testing.T) {
	for name, test := range map[string]struct {
		change func(l *dhcp.Lease)
		kept   bool
		want   string
	}{
		"bound":              {func(*dhcp.Lease) {}, false, ""},
		"lost":               {func(l *dhcp.Lease) { l.Lost = true }, true, `error a: interface net1 lacks 10.0.0.5/24: its lease on network "lan" has ended`},
		"due":                {func(l *dhcp.Lease) { l.Clock -= dhcp.Span(40 * time.Minute) }, true, ""},
		"due, without agent": {func(l *dhcp.Lease) { l.Clock -= dhcp.Span(40 * time.Minute) }, false, `error a: the lease of 10.0.0.5/24 on network "lan" is to be extended, and no agent does`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store, err := state.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			l := dhcp.Lease{Address: netip.MustParsePrefix("10.0.0.5/24"), Clock: dhcp.Span(dhcp.Now()), Renewal: dhcp.Span(30 * time.Minute), Rebinding: dhcp.Span(52 * time.Minute), Lifetime: dhcp.Span(time.Hour)}
			test.change(&l)
			lock, err := store.Lock(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			a := state.Attachment{Network: "lan", Interface: "net1", Phase: state.Attached, Batch: state.Batch{Kind: state.BatchSetup}, DHCP: &l}
			if err := lock.Begin(state.Allocation{ID: "a", Mode: state.ModeSetup}, []state.Attachment{a}); err != nil {
				t.Fatal(err)
			}
			if err := lock.Write(a); err != nil {
				t.Fatal(err)
			}
			lock.Unlock()
			if test.kept {
				unlock, err := store.Leases().Keep(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer unlock()
			}
			r := &Report{}
			(&Doctor{Store: store, StateDir: dir}).leases(t.Context(), r)
			if got := len(r.Findings); (got == 1) != (test.want != "") || got > 1 {
				t.Fatalf("%+v", r.Findings)
			}
			if test.want != "" {
				if f := r.Findings[0]; !strings.HasPrefix(string(f.Severity)+" "+f.Subject+": "+f.Problem, test.want) {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}
