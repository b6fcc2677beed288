// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package selection

// Bounds of tc-tbf(8): a packet that is larger than a burst is dropped, and the kernel counts in 32 bits the time in
// which a burst is sent, and the bytes of a burst and of what may wait.
const (
	minBurst        = 8 * 1522
	maxBurstSeconds = 270
	minRate         = 1000
	maxRate         = 100_000_000_000
	maxBurst        = 24_000_000_000
	// usualBurst is the least that is chosen: packets that the kernel joins are up to 64 KiB.
	usualBurst = 8 * 64 << 10
)

// withBursts gives rates without a burst one.
func withBursts(b Bandwidth) Bandwidth {
	b.IngressBurst = burstOf(b.IngressRate, b.IngressBurst)
	b.EgressBurst = burstOf(b.EgressRate, b.EgressBurst)
	return b
}

func burstOf(rate, burst uint64) uint64 {
	if rate == 0 || burst != 0 {
		return burst
	}
	return min(max(rate/10, usualBurst), rate*maxBurstSeconds, maxBurst)
}
