// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/internal/files"
)

// leaseMarks is also the directory whose lock the keeper of leases has.
const leaseMarks = "leases"

// Leases are those of DHCP on record.
type Leases struct{ store *Store }

// Leases returns those of the allocations.
func (s *Store) Leases() Leases { return Leases{s} }

func (l Leases) dir() string { return filepath.Join(l.store.dir, leaseMarks) }

// Keep is held while leases are extended. The process that has it is the only one, and its end gives it to another one.
func (l Leases) Keep(ctx context.Context) (unlock func(), err error) {
	return files.LockDir(ctx, l.dir(), unix.LOCK_EX)
}

// LockSending is held while a message about a lease of the allocation is sent that the record permits, and taken once between a record that
// permits none and what follows from that. An allocation without leases has no such lock.
func (l Leases) LockSending(ctx context.Context, id string) (unlock func(), err error) {
	return files.LockDir(ctx, filepath.Join(l.dir(), id), unix.LOCK_EX)
}

// LeasesAreKept tells whether a process has the lock of Leases.Keep in a state directory. What cannot be examined is not kept.
func LeasesAreKept(dir string) bool {
	marks, err := os.Open(filepath.Join(dir, leaseMarks))
	if err != nil {
		return false
	}
	defer files.CloseLocked(marks)
	return unix.Flock(int(marks.Fd()), unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK
}

// List is Store.List for the allocations that may have leases, or addresses that change by router advertisements.
func (l Leases) List(ctx context.Context) iter.Seq2[Record, error] {
	return l.store.list(ctx, l.ids)
}

func (l Leases) ids() ([]string, error) { return marked(l.dir()) }

// markLeases marks the allocation if attachments have addresses that change while they live.
func (l *Locked) markLeases(attachments []Attachment) error {
	if !slices.ContainsFunc(attachments, func(a Attachment) bool { return len(a.Leased()) > 0 || a.AwaitRA }) {
		return nil
	}
	return l.addMark(leaseMarks)
}

// Leased returns the leases of DHCP of the attachment, IPv4 first.
func (a Attachment) Leased() []dhcp.Lease {
	var all []dhcp.Lease
	for _, l := range []*dhcp.Lease{a.DHCP, a.DHCPv6} {
		if l != nil {
			all = append(all, *l)
		}
	}
	return all
}

// LeaseOf returns the lease of a family; nil: there is none.
func (a Attachment) LeaseOf(f dhcp.Family) *dhcp.Lease {
	if f == dhcp.IPv6 {
		return a.DHCPv6
	}
	return a.DHCP
}

// SetLease sets the lease of the family of its address.
func (a *Attachment) SetLease(l dhcp.Lease) {
	if l.Family() == dhcp.IPv6 {
		a.DHCPv6 = &l
		return
	}
	a.DHCP = &l
}
