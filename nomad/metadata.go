// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"context"
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
	"strings"

	"github.com/hashicorp/nomad/api"
)

// metaPrefix is the prefix of the node metadata of a network. A job requires a node
// with the network "storage" by
//
//	constraint {
//	  attribute = "${meta.allocnet.network.storage}"
//	  value     = "true"
//	}
const metaPrefix = "allocnet.network."

// poolPrefix is the prefix of the node metadata of a pool of allocnet-ipam. A job avoids a
// node that has no free address of the pool "vlan100" by
//
//	constraint {
//	  attribute = "${meta.allocnet.pool.vlan100.free}"
//	  operator  = ">"
//	  value     = "0"
//	}
const poolPrefix = "allocnet.pool."

// metaName is the form of a part of a key that Nomad accepts.
var metaName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]*$`)

// Publish makes these networks, and the numbers of free addresses of these pools, and no
// others, the dynamic metadata of this node. A network or pool whose name is not an HCL
// identifier is left out, with a warning in the log.
func (c *Client) Publish(ctx context.Context, networks []string, free map[string]int) error {
	node, err := c.nodeID(ctx)
	if err != nil {
		return err
	}
	options, err := c.query(ctx)
	if err != nil {
		return err
	}
	present, err := c.api.Nodes().Meta().Read(node, options)
	if err != nil {
		return fmt.Errorf("read metadata of node %s: %w", node, err)
	}
	change := difference(present.Meta, c.metadata(networks, free, present.Meta))
	if len(change) == 0 {
		return nil
	}
	write := (&api.QueryOptions{AuthToken: options.AuthToken}).WithContext(ctx)
	if _, err := c.api.Nodes().Meta().Apply(&api.NodeMetaApplyRequest{NodeID: node, Meta: change}, write); err != nil {
		return fmt.Errorf("change metadata of node %s: %w", node, err)
	}
	return nil
}

func (c *Client) metadata(networks []string, free map[string]int, present map[string]string) map[string]string {
	want := map[string]string{}
	for _, name := range networks {
		if c.publishable("network", name) {
			want[metaPrefix+name] = "true"
		}
	}
	for name, n := range free {
		if key := poolPrefix + name + ".free"; c.publishable("pool", name) {
			want[key] = atLeast(n, present[key])
		}
	}
	return want
}

func (c *Client) publishable(kind, name string) bool {
	if metaName.MatchString(name) {
		return true
	}
	c.log.Warn("a "+kind+" is not published: its name is no valid metadata key", kind, name, "want", metaName.String())
	return false
}

// atLeast returns a power of two that is at most n, or 0. The present one stays until n is
// less, or four times as much: a change is a write of Nomad's servers, and the addresses of
// each allocation would make one.
func atLeast(n int, present string) string {
	if p, err := strconv.Atoi(present); err == nil && p > 0 && p <= n && n < 4*p {
		return present
	}
	if n <= 0 {
		return "0"
	}
	return strconv.Itoa(1 << (bits.Len(uint(n)) - 1))
}

// difference returns the changes from present to want; nil deletes a key.
func difference(present, want map[string]string) map[string]*string {
	change := map[string]*string{}
	for key, value := range want {
		if present[key] != value {
			change[key] = &value
		}
	}
	for key := range present {
		own := strings.HasPrefix(key, metaPrefix) || strings.HasPrefix(key, poolPrefix)
		if _, wanted := want[key]; own && !wanted {
			change[key] = nil
		}
	}
	return change
}
