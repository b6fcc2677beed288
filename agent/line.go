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

// line has requests work a few at a time, in the order in which they came.
// Plugins keep processors busy, and iptables begins anew whenever somebody else
// has changed the rules: more at once are no quicker, and some of them starve.
type line chan struct{}

// patience is how long a request keeps its place in the line. One that takes
// longer mostly waits, for a server or for a plugin that hangs, and is not to
// keep others from working.
const patience = 5 * time.Second

func newLine() line { return make(line, max(4, 2*runtime.GOMAXPROCS(0))) }

// enter waits for a place, which has to be left again. When ctx ends first the
// error says to try again later.
func (l line) enter(ctx context.Context) (leave func(), err error) {
	select {
	case l <- struct{}{}:
	case <-ctx.Done():
		return nil, tryAgainLater(fmt.Sprintf("waited in vain for one of %d others to finish", cap(l)))
	}
	release := sync.OnceFunc(func() { <-l })
	timer := time.AfterFunc(patience, release)
	return func() {
		timer.Stop()
		release()
	}, nil
}
