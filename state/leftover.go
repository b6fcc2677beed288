// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

// Leftover is what forced cleanup gets of one allocation: attachments of which
// plugins may have left objects on the host.
type Leftover struct {
	Allocation Allocation
	Suspects   []Suspect
}

// Suspect is an attachment whose DEL failed, was not run, or had no namespace to
// run in.
type Suspect struct {
	Attachment Attachment
	// DelErr is the error of DEL; nil: DEL succeeded or was not run.
	DelErr error
	// Replaced is whether the namespace has another interface of the attachment's name, which
	// has to stay.
	Replaced bool
}

// Record returns the allocation with its suspects.
func (l Leftover) Record() Record {
	r := Record{Allocation: l.Allocation}
	for _, s := range l.Suspects {
		r.Attachments = append(r.Attachments, s.Attachment)
	}
	return r
}
