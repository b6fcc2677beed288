// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/hashicorp/nomad/api"
)

// placed is what matters of an allocation. The rest of the answer, which has the
// whole job, is not kept.
type placed struct {
	ID           string
	ClientStatus string
}

// ended tells whether all tasks are dead on the host, as far as the host has
// said. One that Nomad calls lost, or does not know of, may run on.
func (p placed) ended() bool {
	return p.ClientStatus == api.AllocClientStatusComplete || p.ClientStatus == api.AllocClientStatusFailed
}

// Live returns the IDs of the allocations on this host that have not ended. An
// error means that it is not known. While Watch runs it has the answer already,
// which is at most watchPause older than Nomad's.
func (c *Client) Live(ctx context.Context) (map[string]bool, error) {
	c.mu.Lock()
	watched := maps.Clone(c.live)
	c.mu.Unlock()
	if watched != nil {
		return watched, nil
	}
	live, _, err := c.askLive(ctx, 0)
	return live, err
}

// watchWait is how long Nomad waits for a change before it answers. The answer
// has all allocations of the node, so that a short wait would cost much.
const watchWait = 10 * time.Minute

// askLive returns what lives, and the index of the answer. With the index of an
// earlier answer it waits for another.
func (c *Client) askLive(ctx context.Context, index uint64) (map[string]bool, uint64, error) {
	node, err := c.nodeID(ctx)
	if err != nil {
		return nil, 0, err
	}
	options, err := c.query(ctx)
	if err != nil {
		return nil, 0, err
	}
	if index > 0 {
		options.WaitIndex, options.WaitTime = index, watchWait
	}
	var allocations []placed
	meta, err := c.api.Raw().Query("/v1/node/"+node+"/allocations", &allocations, options)
	if err != nil {
		return nil, 0, fmt.Errorf("ask nomad for the allocations of node %s: %w", node, err)
	}
	if len(allocations) == 0 {
		if err := c.nodeExists(ctx, node); err != nil {
			return nil, 0, err
		}
	}
	live := map[string]bool{}
	for _, a := range allocations {
		if !a.ended() {
			live[a.ID] = true
		}
	}
	return live, meta.LastIndex, nil
}

// bridgeNetwork is the name of the network that Nomad makes itself, for groups
// in bridge mode.
const bridgeNetwork = "nomad"

// Attached tells whether Nomad attached an allocation to a network by a
// configuration of its own, so that what it left is in no CNI configuration
// directory.
func Attached(network, allocation string) bool {
	return network == bridgeNetwork && uuid.MatchString(allocation)
}

// nodeExists is an error for a node that Nomad does not know: its list is empty,
// too, which would be the death of all allocations.
func (c *Client) nodeExists(ctx context.Context, node string) error {
	options, err := c.query(ctx)
	if err != nil {
		return err
	}
	if _, _, err := c.api.Nodes().Info(node, options); err != nil {
		return fmt.Errorf("ask nomad for node %s: %w", node, err)
	}
	return nil
}
