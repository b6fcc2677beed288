// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"slices"
	"sync"

	"github.com/allocnet/allocnet/state"
)

// inOrder calls do for 0 to n-1, all at the same time, except that do(i) starts only
// when every do(j) for j in dependencies(i) has returned. When the context ends, no
// dependency is waited for any more; do is still called for each. The dependencies must
// not form a cycle.
func inOrder(ctx context.Context, n int, dependencies func(i int) []int, do func(i int)) {
	done := make([]chan struct{}, n)
	waitFor := make([][]int, n) // computed before do changes anything
	for i := range n {
		done[i], waitFor[i] = make(chan struct{}), dependencies(i)
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			defer close(done[i])
			for _, j := range waitFor[i] {
				select {
				case <-done[j]:
				case <-ctx.Done():
				}
			}
			do(i)
		})
	}
	all.Wait()
}

// predecessors returns the indexes of the attachments that attachment i depends on.
func predecessors(attachments []state.Attachment, i int) []int {
	return indexes(attachments, func(other state.Attachment) bool {
		return dependsOn(attachments[i], other)
	})
}

// successors returns the indexes of the attachments that depend on attachment i.
func successors(attachments []state.Attachment, i int) []int {
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
