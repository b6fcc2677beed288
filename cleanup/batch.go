// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import "time"

// batchSize is how many allocations are cleaned up at once. Nothing is attached
// meanwhile, so a batch is to take a fraction of a second. How many that is
// depends on the rules that the host has.
type batchSize struct{ n int }

// Limits of a batch: iptables-nft-restore takes more than twice as long for twice
// as many chains from some thousands on.
const (
	leastBatch = 10
	firstBatch = 100
	mostBatch  = 1000
)

func (b *batchSize) next() int {
	if b.n == 0 {
		b.n = firstBatch
	}
	return b.n
}

// took adapts the size to what the last batch took.
func (b *batchSize) took(d time.Duration) {
	switch {
	case d < 250*time.Millisecond:
		b.n = min(2*b.n, mostBatch)
	case d > 750*time.Millisecond:
		b.n = max(b.n/2, leastBatch)
	}
}
