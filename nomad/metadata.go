// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"context"
	"fmt"
	"regexp"
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

// metaName is the form of a part of a key that Nomad accepts.
var metaName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]*$`)

// Publish makes these networks, and no others, the dynamic metadata of this node.
// A network whose name is not an HCL identifier is left out, with a warning in the
// log.
func (c *Client) Publish(ctx context.Context, networks []string) error {
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
	change := difference(present.Meta, c.keys(networks))
	if len(change) == 0 {
		return nil
	}
	write := (&api.QueryOptions{AuthToken: options.AuthToken}).WithContext(ctx)
	if _, err := c.api.Nodes().Meta().Apply(&api.NodeMetaApplyRequest{NodeID: node, Meta: change}, write); err != nil {
		return fmt.Errorf("change metadata of node %s: %w", node, err)
	}
	return nil
}

// keys returns the metadata keys of networks.
func (c *Client) keys(networks []string) map[string]bool {
	keys := map[string]bool{}
	for _, name := range networks {
		if !metaName.MatchString(name) {
			c.log.Warn("network is not published: its name is no valid metadata key", "network", name, "want", metaName.String())
			continue
		}
		keys[metaPrefix+name] = true
	}
	return keys
}

// difference returns the changes from present to want; nil deletes a key.
func difference(present map[string]string, want map[string]bool) map[string]*string {
	change := map[string]*string{}
	for key := range want {
		if present[key] != "true" {
			yes := "true"
			change[key] = &yes
		}
	}
	for key := range present {
		if strings.HasPrefix(key, metaPrefix) && !want[key] {
			change[key] = nil
		}
	}
	return change
}
