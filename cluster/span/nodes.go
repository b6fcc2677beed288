// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/cluster/connect"
)

// Node is a node that Nomad knows. The first of its addresses is that of its network.
type Node = connect.Node

// Nomad says which nodes there are.
type Nomad interface {
	// Self returns this host's node; the zero value if the host is none.
	Self(ctx context.Context) (Node, error)
	// Nodes returns all nodes. It may lack addresses.
	Nodes(ctx context.Context) ([]Node, error)
	// Node returns a node; the zero value if Nomad does not know it.
	Node(ctx context.Context, id string) (Node, error)
}

const (
	// nodeFresh is how long an answer about a node is good for.
	nodeFresh = 10 * time.Minute
	// nodeAgain is the time between two questions about a node whose answer does not suffice.
	nodeAgain = 10 * time.Second
	// nodesAgain is the time between two readings of the list.
	nodesAgain = time.Minute
	// mostSingle is how many nodes are asked for one by one, rather than by the list. Servers
	// with thousands of nodes, whose hosts all see a new block, must not send all of them the
	// list.
	mostSingle = 16
	nodesLimit = 10 * time.Second
	// parallel questions are asked at a time.
	parallel = 8
)

// nodes are those that Nomad knows. They are asked for when they are needed: a block whose
// content does not change needs no answer. It is not for concurrent use.
type nodes struct {
	nomad Nomad
	known map[string]knownNode
	// listed is when all were asked for. Zero: never.
	listed time.Time
}

type knownNode struct {
	Node
	asked time.Time
	// whole is whether the answer has all addresses.
	whole bool
}

func (k knownNode) has(a netip.Addr) bool { return k.ID != "" && slices.Contains(k.Addresses, a) }

type wanted struct {
	id      string
	address netip.Addr
}

// ask asks for the nodes whose present answer does not suffice. After an error some answers may be
// missing.
func (n *nodes) ask(ctx context.Context, all []wanted) error {
	ctx, stop := context.WithTimeout(ctx, nodesLimit)
	defer stop()
	missing := n.missing(all)
	if len(missing) > mostSingle && time.Since(n.listed) >= nodesAgain {
		if err := n.list(ctx); err != nil {
			return err
		}
		missing = n.missing(all)
	}
	return n.askEach(ctx, missing[:min(len(missing), 4*mostSingle)])
}

func (n *nodes) missing(all []wanted) []string {
	var ids []string
	listed := map[string]bool{}
	for _, w := range all {
		k, ok := n.known[w.id]
		again := nodeAgain
		if k.has(w.address) {
			again = nodeFresh
		} else if !k.whole {
			again = 0
		}
		if (!ok || time.Since(k.asked) >= again) && !listed[w.id] {
			ids, listed[w.id] = append(ids, w.id), true
		}
	}
	return ids
}

func (n *nodes) list(ctx context.Context) error {
	all, err := n.nomad.Nodes(ctx)
	if err != nil {
		return err
	}
	n.listed = time.Now()
	for _, node := range all {
		if k := n.known[node.ID]; !k.whole || time.Since(k.asked) >= nodeFresh {
			n.known[node.ID] = knownNode{node, n.listed, false}
		}
	}
	return nil
}

func (n *nodes) askEach(ctx context.Context, ids []string) error {
	var mu sync.Mutex // guards n.known
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, id := range ids {
		group.Go(func() error {
			node, err := n.nomad.Node(ctx, id)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			n.known[id] = knownNode{node, time.Now(), true}
			return nil
		})
	}
	return group.Wait()
}
