// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import "time"

// batchSize is how many allocations are cleaned up at once. Nothing is attached
// meanwhile, so a batch is to take a fraction of a second. The size for that
// depends on the number of rules on the host.
type batchSize struct{ n int }

// Limits of a batch: iptables-nft-restore takes more than twice as long for twice
// as many chains from some thousands on.
const (
	minBatch     = 10
	initialBatch = 100
	maxBatch     = 1000
)

func (b *batchSize) next() int {
	if b.n == 0 {
		b.n = initialBatch
	}
	return b.n
}

// adapt sets the size by how long the last batch took.
func (b *batchSize) adapt(d time.Duration) {
	switch {
	case d < 250*time.Millisecond:
		b.n = min(2*b.n, maxBatch)
	case d > 750*time.Millisecond:
		b.n = max(b.n/2, minBatch)
	}
}
