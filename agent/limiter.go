// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// limiter bounds the requests that are executed in parallel, and queues the others
// in order of arrival. Plugins keep processors busy, and iptables starts over when
// another process has changed the rules: more in parallel are no faster, and some of
// them starve.
type limiter chan struct{}

// slotTimeout is how long a request keeps its slot. A request that takes longer
// mostly waits, for a server or for a plugin that hangs, and must not block others.
const slotTimeout = 5 * time.Second

func newLimiter() limiter { return make(limiter, max(4, 2*runtime.GOMAXPROCS(0))) }

// acquire waits for a slot, which the caller has to release. If ctx ends first, the
// error is "try again later".
func (l limiter) acquire(ctx context.Context) (release func(), err error) {
	select {
	case l <- struct{}{}:
	case <-ctx.Done():
		return nil, tryAgainLater(fmt.Sprintf("no slot became free: %d requests are in flight", cap(l)))
	}
	free := sync.OnceFunc(func() { <-l })
	timer := time.AfterFunc(slotTimeout, free)
	return func() {
		timer.Stop()
		free()
	}, nil
}
