// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/allocnet/allocnet/internal/wake"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// allocationStub has the fields of an allocation that Live needs. The answer has
// the whole job of each allocation.
type allocationStub struct {
	ID, Name, JobID, TaskGroup string
	ClientStatus               string
	Job                        *api.Job
}

// selects reports whether the job of an allocation selects networks, or narrows their traffic.
func (a allocationStub) selects() bool {
	j, _ := jobOf(&api.Allocation{ID: a.ID, TaskGroup: a.TaskGroup, Job: a.Job}) // of an invalid selection nothing is known
	return len(j.Networks) > 0 || j.Narrowing != (selection.Narrowing{})
}

// ended reports whether the client has reported all tasks as dead. An allocation
// with the status lost or unknown may still run.
func (a allocationStub) ended() bool {
	return a.ClientStatus == api.AllocClientStatusComplete || a.ClientStatus == api.AllocClientStatusFailed
}

// Live returns the IDs of the allocations on this host that have not ended. With
// an error the live set is unknown. While Watch runs, Live sends no request; the
// answer is at most watchPause older than Nomad's.
func (c *Client) Live(ctx context.Context) (map[string]bool, error) {
	if watched := c.watched(nil); watched != nil {
		return watched, nil
	}
	live, _, err := c.queryLive(ctx, 0)
	if err != nil {
		return nil, err
	}
	if watched := c.watched(live); watched != nil {
		return watched, nil
	}
	return live, nil
}

// watched returns the live set that Watch keeps, nil while it knows none. Then it notes what callers
// have believed, of which a round has several answers, so that Watch reports an allocation that has ended until its first answer.
func (c *Client) watched(believed map[string]bool) map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil && believed != nil {
		all := maps.Clone(believed)
		maps.Copy(all, c.lastLive)
		c.lastLive = all
	}
	return maps.Clone(c.live)
}

// watchWait is the wait time of a blocking query. Each answer has all allocations
// of the node, so a short wait would be expensive.
const watchWait = 10 * time.Minute

// queryLive returns the live set, and the index of the answer. With the index of
// an earlier answer it is a blocking query.
func (c *Client) queryLive(ctx context.Context, index uint64) (map[string]bool, uint64, error) {
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
	var allocations []allocationStub
	meta, err := c.api.Raw().Query("/v1/node/"+node+"/allocations", &allocations, options)
	if err != nil {
		return nil, 0, fmt.Errorf("read the allocations of node %s from nomad: %w", node, err)
	}
	if len(allocations) == 0 {
		if err := c.nodeExists(ctx, node); err != nil {
			return nil, 0, err
		}
	}
	if !c.config.JobNetworks {
		c.warnUnread(allocations)
	}
	return c.sort(allocations), meta.LastIndex, nil
}

// warnUnread logs each live allocation that lacks the networks of its job, once.
func (c *Client) warnUnread(allocations []allocationStub) {
	c.mu.Lock()
	defer c.mu.Unlock()
	unread := map[string]bool{}
	for _, a := range allocations {
		if a.ended() || !a.selects() {
			continue
		}
		unread[a.ID] = true
		if !c.unread[a.ID] {
			c.log.Warn("a job selects networks, or narrows their traffic, by meta or network blocks, and its allocation has nothing of that: set job_networks = true in the block nomad", "allocation", a.ID, "job", a.JobID)
		}
	}
	c.unread = unread
}

// sort returns which allocations live, and keeps their numbers for Indexes and the others for Ended.
func (c *Client) sort(allocations []allocationStub) map[string]bool {
	live, ended, indexes := map[string]bool{}, []string{}, map[string]int{}
	for _, a := range allocations {
		if a.ended() {
			ended = append(ended, a.ID)
			continue
		}
		live[a.ID] = true
		if index, ok := state.NomadIndex(a.Name); ok {
			indexes[a.ID] = index
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = ended
	if c.indexes == nil || !maps.Equal(c.indexes, indexes) {
		c.indexes, c.renumbered = indexes, c.renumbered+1
	}
	return live
}

// Indexes returns the numbers in their groups of the allocations on this host that lived when Live was last asked, or Watch had its
// last answer, by ID. The map does not change. Nil: there was no answer yet.
func (c *Client) Indexes() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.indexes
}

// Renumbered counts how often Indexes has changed: who asks often need not look at all of it.
func (c *Client) Renumbered() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.renumbered
}

// Ended returns the IDs of the allocations on this host that had ended when Live was
// last asked, or Watch had its last answer. An allocation that Nomad does not know is not among them.
func (c *Client) Ended() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// bridgeNetwork is the name of Nomad's built-in network, for groups in bridge
// mode.
const bridgeNetwork = "nomad"

// Attached reports whether Nomad itself attached an allocation to its built-in
// network, which no CNI configuration directory has.
func Attached(network, allocation string) bool {
	return network == bridgeNetwork && state.IsNomadID(allocation)
}

// nodeExists returns an error for a node that Nomad does not know. The list of
// such a node is empty, too, and all its allocations would count as dead.
func (c *Client) nodeExists(ctx context.Context, node string) error {
	options, err := c.query(ctx)
	if err != nil {
		return err
	}
	if _, _, err := c.api.Nodes().Info(node, options); err != nil {
		return fmt.Errorf("read node %s from nomad: %w", node, err)
	}
	return nil
}

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
		wake.After(ctx, pause)
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
