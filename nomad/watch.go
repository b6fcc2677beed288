// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"context"
	"errors"
	"time"
)

const (
	// watchPause is between an answer and the next question: an allocation that
	// starts or ends changes several times, which then comes in one answer.
	watchPause = 5 * time.Second
	maxBackoff = time.Minute
)

// Watch calls changed after an allocation of this host has ended, until ctx
// does, and keeps what Live returns. It asks for the allocations of this node
// and has Nomad answer when one of them changes: what happens elsewhere in the
// cluster costs nothing here.
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
			c.setLive(nil) // it is unknown now
			c.log.Warn("nomad does not say what lives here", "error", err, "again in", pause.String())
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

// awaitLive is askLive with a limit: Nomad adds a sixteenth to a wait, and a
// server that says nothing even then is not there.
func (c *Client) awaitLive(ctx context.Context, index uint64) (map[string]bool, uint64, error) {
	ctx, stop := context.WithTimeoutCause(ctx, watchWait+watchWait/16+maxBackoff, errors.New("no answer in the time of a blocking query"))
	defer stop()
	return c.askLive(ctx, index)
}

// setLive keeps what lives, nil for what is not known, and tells whether
// something that lived has ended.
func (c *Client) setLive(live map[string]bool) (ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if live != nil {
		for id := range c.lived {
			ended = ended || !live[id]
		}
		c.lived = live
	}
	c.live = live
	return ended
}
