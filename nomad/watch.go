// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"context"
	"errors"
	"time"
)

const (
	// watchPause is the time between an answer and the next query: the several
	// changes of an allocation that starts or ends come in one answer.
	watchPause = 5 * time.Second
	// maxBackoff limits the growing pause after failed queries.
	maxBackoff = time.Minute
)

// Watch follows the allocations of this node until ctx ends, keeps the live set for
// Live, and calls changed after an allocation has ended. It uses blocking queries
// on the node's allocations: changes elsewhere in the cluster cost nothing.
func (c *Client) Watch(ctx context.Context, changed func()) {
	defer c.setLive(nil)
	var index uint64
	pause := c.pause
	for ctx.Err() == nil {
		live, next, err := c.awaitLive(ctx, index)
		switch {
		case err == nil:
			if c.setLive(live) {
				changed()
			}
			index, pause = next, c.pause
		case ctx.Err() == nil:
			c.setLive(nil) // unknown
			c.log.Warn("cannot read the allocations of this node from Nomad, retrying", "in", pause.String(), "error", err)
			index = 0
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		if err != nil {
			pause = min(2*pause, maxBackoff)
		}
	}
}

// awaitLive is queryLive with a deadline: Nomad adds up to a sixteenth to the
// wait time, and a server that has not answered by then is unreachable.
func (c *Client) awaitLive(ctx context.Context, index uint64) (map[string]bool, uint64, error) {
	ctx, stop := context.WithTimeoutCause(ctx, watchWait+watchWait/16+maxBackoff, errors.New("no answer within the wait time of a blocking query"))
	defer stop()
	return c.queryLive(ctx, index)
}

// setLive keeps the live set, nil for unknown, and reports whether an allocation
// of the last known one has ended.
func (c *Client) setLive(live map[string]bool) (ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if live != nil {
		for id := range c.lastLive {
			ended = ended || !live[id]
		}
		c.lastLive = live
	}
	c.live = live
	return ended
}
