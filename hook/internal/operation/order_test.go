// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package operation

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestInOrder(t *testing.T) {
	after := [][]int{nil, {0}, {1}, nil, {0, 3}}
	var mu sync.Mutex
	var order []int
	InOrder(t.Context(), len(after), func(i int) []int { return after[i] }, func(i int) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, i)
	})
	for i, before := range after {
		for _, j := range before {
			if slices.Index(order, j) > slices.Index(order, i) {
				t.Errorf("%d came before %d: %v", i, j, order)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) { // all at once: ten waits take as long as one
		begun := time.Now()
		InOrder(t.Context(), 10, func(int) []int { return nil }, func(int) { time.Sleep(time.Second) })
		if took := time.Since(begun); took != time.Second {
			t.Errorf("took %s", took)
		}
	})
}
