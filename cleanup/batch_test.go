// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"testing"
	"time"
)

func TestBatchSize(t *testing.T) {
	var b batchSize
	for i, step := range []struct {
		took time.Duration
		want int
	}{
		{0, 100}, {0, 200}, {500 * time.Millisecond, 400}, {time.Second, 400}, {time.Minute, 200}, {0, 100},
	} {
		if got := b.next(); got != step.want {
			t.Errorf("batch %d has %d, want %d", i, got, step.want)
		}
		b.adapt(step.took)
	}
	for range 20 {
		b.adapt(0)
	}
	if b.next() != maxBatch {
		t.Errorf("at most %d", b.next())
	}
	for range 20 {
		b.adapt(time.Minute)
	}
	if b.next() != minBatch {
		t.Errorf("at least %d", b.next())
	}
}
