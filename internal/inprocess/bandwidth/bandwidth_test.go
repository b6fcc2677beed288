// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package bandwidth

import (
	"math"
	"testing"
)

// TestLimitsThatDoNotFit would lose packets, or be others in the kernel, which counts in 32 bits.
func TestLimitsThatDoNotFit(t *testing.T) {
	for _, mtu := range []int{68, 576, 1400, 1500, 9000, 65535} {
		for rate := uint64(1); rate < 1<<60; rate *= 3 {
			for burst := uint64(1); burst/8 < math.MaxUint32; burst *= 2 {
				l := limit{rate, burst}
				if l.fits(mtu) != nil {
					continue
				}
				q := l.qdisc(1)
				seconds := float64(burst) / float64(rate)
				if ticks := float64(q.Buffer) / 15.625 / 1e6; q.Rate == 0 || int(burst/8) < mtu || ticks < seconds*0.8-0.001 || float64(q.Limit) < float64(burst/8) {
					t.Fatalf("MTU %d: %+v became %+v", mtu, l, q)
				}
			}
		}
	}
	for name, l := range map[string]limit{"none": {}, "usual": {8000000, 80000}, "slow": {8000, 2000000}, "fast": {100_000_000_000, 24_000_000_000}} {
		if err := l.fits(1500); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
