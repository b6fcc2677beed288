// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/nomad/api"
)

// Live returns the IDs of the allocations on this host that have not ended. An
// error means that it is not known.
func (c *Client) Live(ctx context.Context) (map[string]bool, error) {
	node, err := c.nodeID(ctx)
	if err != nil {
		return nil, err
	}
	options, err := c.query(ctx)
	if err != nil {
		return nil, err
	}
	// Without such a node the list is empty, which would be everybody's death.
	if _, _, err := c.api.Nodes().Info(node, options); err != nil {
		return nil, fmt.Errorf("ask nomad for node %s: %w", node, err)
	}
	allocations, _, err := c.api.Nodes().Allocations(node, options)
	if err != nil {
		return nil, fmt.Errorf("ask nomad for the allocations of node %s: %w", node, err)
	}
	live := map[string]bool{}
	for _, a := range allocations {
		if !ended(a) {
			live[a.ID] = true
		}
	}
	return live, nil
}

// ended tells whether all tasks are dead on the host, as far as the host has
// said. One that Nomad calls lost, or does not know of, may run on.
func ended(a *api.Allocation) bool {
	return a.ClientStatus == api.AllocClientStatusComplete || a.ClientStatus == api.AllocClientStatusFailed
}

const (
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// Watch calls changed after an allocation of this host has ended, until ctx
// does. It follows the event stream, and goes on where it stopped when the
// stream breaks. An event may be missed; an interval is needed besides.
func (c *Client) Watch(ctx context.Context, changed func()) {
	var index uint64
	pause := minBackoff
	for ctx.Err() == nil {
		last, err := c.follow(ctx, index, changed)
		if last > index {
			index, pause = last, minBackoff
		}
		if ctx.Err() == nil {
			c.log.Warn("nomad's event stream broke off", "error", err, "again in", pause.String())
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			pause = min(2*pause, maxBackoff)
		}
	}
}

// follow reads one stream to its end and returns the last index seen.
func (c *Client) follow(ctx context.Context, index uint64, changed func()) (uint64, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	node, err := c.nodeID(ctx)
	if err != nil {
		return index, err
	}
	options, err := c.query(ctx)
	if err != nil {
		return index, err
	}
	topics := map[api.Topic][]string{api.TopicAllocation: {string(api.TopicAll)}}
	batches, err := c.api.EventStream().Stream(ctx, topics, index, options)
	if err != nil {
		return index, err
	}
	for batch := range batches {
		if batch.Err != nil {
			return index, batch.Err
		}
		index = max(index, batch.Index)
		for _, event := range batch.Events {
			if a, err := event.Allocation(); err == nil && a != nil && a.NodeID == node && ended(a) {
				changed()
			}
		}
	}
	return index, context.Cause(ctx)
}
