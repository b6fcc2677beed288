// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/client"
)

func newCluster(s *settings) *cobra.Command {
	return withCommands(&cobra.Command{
		Use:   "cluster",
		Short: "Show, measure and leave the networks that span hosts",
		Long: `Show, measure or remove what connects this host with others: the routes to the blocks of
other hosts, for the pools of allocnet-ipam whose mode is routed, vxlan or auto. The agent
keeps these routes.`,
	}, newClusterStatus(s), newClusterPing(s), newClusterLeave(s))
}

// agentSocket is the flag that says where the agent is.
type agentSocket struct{ path string }

func (f *agentSocket) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.path, "socket", api.DefaultSocket, "path of the agent's socket")
}

func (f *agentSocket) client() *client.Client { return client.New(f.path) }
