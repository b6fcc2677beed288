// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"sync"
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
