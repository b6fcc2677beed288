// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"fmt"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// BenchmarkAddDel is an attachment that comes and goes on a host with a block, beside others.
func BenchmarkAddDel(b *testing.B) {
	for _, others := range []int{0, 1000} {
		b.Run(fmt.Sprint(others), func(b *testing.B) {
			h := newHost(b, newStore(), 0, `"cooldown": "0s", "blockSize": {"4": 20}, "ranges": [{"subnet": "10.0.0.0/16"}]`)
			for i := range others {
				h.add(fmt.Sprintf("3f1c2b9e-5f0b-4c55-9d3b-%012d", i))
			}
			h.add("a")
			h.del("a")
			for b.Loop() {
				h.restart()
				if _, err := h.Add(b.Context(), ipam.Request{Owner: owner("a")}); err != nil {
					b.Fatal(err)
				}
				h.restart()
				h.del("a")
			}
		})
	}
}
