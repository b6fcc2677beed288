// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"slices"

	"github.com/allocnet/allocnet/state"
)

// Predecessors returns the indexes of the attachments that attachment i depends on.
func Predecessors(attachments []state.Attachment, i int) []int {
	return indexes(attachments, func(other state.Attachment) bool {
		return dependsOn(attachments[i], other)
	})
}

// Successors returns the indexes of the attachments that depend on attachment i.
func Successors(attachments []state.Attachment, i int) []int {
	return indexes(attachments, func(other state.Attachment) bool {
		return dependsOn(other, attachments[i])
	})
}

// dependsOn tells whether a came after other. A dependency names an interface, which a
// later attachment may have by now: that one has a greater Index, and a does not depend
// on it. So the dependencies of no record form a cycle, whatever it says.
func dependsOn(a, other state.Attachment) bool {
	return other.Index < a.Index && slices.Contains(a.DependsOn, other.Interface)
}

func indexes(attachments []state.Attachment, match func(state.Attachment) bool) []int {
	var found []int
	for i, a := range attachments {
		if match(a) {
			found = append(found, i)
		}
	}
	return found
}
