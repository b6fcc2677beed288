// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/allocnet/allocnet/hook"
)

// TestLongCrowd sets up 50 allocations with three networks each by 16 processes at
// a time, and tears them down in the same way.
func TestLongCrowd(t *testing.T) {
	h := newHost(t)
	const allocations, processes = 50, 16
	var mu sync.Mutex
	owner := map[netip.Prefix]string{}
	crowd(allocations, processes, func(i int) {
		id := fmt.Sprintf("crowd-%d", i)
		o := h.allocnet("attach", id, "--json", "--primary", "web", "--networks", "storage,peer", "--publish", fmt.Sprintf("%d:80/tcp", 9000+i))
		var a hook.Allocation
		if err := json.Unmarshal([]byte(o.stdout), &a); o.code != 0 || err != nil {
			t.Errorf("attach %s: exit code %d\n%s", id, o.code, o.stderr)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, address := range a.Addresses() {
			if other, taken := owner[address]; taken {
				t.Errorf("%s has the address %s of %s", id, address, other)
			}
			owner[address] = id
		}
	})
	if want := allocations * 4; len(owner) != want { // storage has both families
		t.Errorf("%d addresses, want %d", len(owner), want)
	}
	crowd(allocations, processes, func(i int) {
		id := fmt.Sprintf("crowd-%d", i)
		if o := h.allocnet("detach", id); o.code != 0 {
			t.Errorf("detach %s: exit code %d\n%s", id, o.code, o.stderr)
		}
	})
}

// crowd calls do for 0 to n-1, at most width of them at a time.
func crowd(n, width int, do func(i int)) {
	var all sync.WaitGroup
	places := make(chan struct{}, width)
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			do(i)
		})
	}
	all.Wait()
}
