// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package remedy is how plugins repair in CHECK: they note what an attachment lacks, and make it unless only a report is
// wanted (DryRun).
package remedy

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// Repair makes CHECK of a chain bring back what its attachment lacks. What is there is neither
// removed nor made again, so established connections survive; rules that are missing are made
// by Commit. What belongs to the attachment is taken from its configuration and result alone:
// what the namespace says of the host, its tasks may have chosen.
type Repair struct {
	// DryRun is whether nothing is made.
	DryRun bool
	// Moved is whether a task has moved the interface on purpose: nothing inside is compared or made, and the host's end may lead
	// to another namespace. What the host has for it is repaired, as it is reached there.
	Moved bool
	// Missing is what was missing, in words.
	Missing []string
	// Unrepairable is what only DEL and ADD bring back, in words.
	Unrepairable []string
	// Err is why something that is missing could not be made, or cannot be looked for.
	Err error
}

// Found tells whether there was anything to repair.
func (r *Repair) Found() bool { return len(r.Missing)+len(r.Unrepairable) > 0 || r.Err != nil }

// Ensure notes what is missing, and makes it unless nothing is to be made.
func (r *Repair) Ensure(what string, make func() error) error {
	r.Missing = append(r.Missing, what)
	if r.DryRun {
		return nil
	}
	if err := make(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Fail keeps all errors.
func (r *Repair) Fail(err error) { r.Err = errors.Join(r.Err, err) }

// Gone notes what only DEL and ADD bring back.
func (r *Repair) Gone(format string, a ...any) {
	r.Unrepairable = append(r.Unrepairable, fmt.Sprintf(format, a...))
}

// EnsureUp sets a link up if it is down.
func EnsureUp(r *Repair, link netlink.Link) error {
	if link.Attrs().Flags&net.FlagUp != 0 {
		return nil
	}
	return r.Ensure("interface "+link.Attrs().Name+" is down", func() error { return netlink.LinkSetUp(link) })
}
