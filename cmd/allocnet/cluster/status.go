// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
)

const clusterStatusLong = `Show, for each pool whose network spans hosts, the hosts that have blocks of it, and how
this host reaches them. The agent answers from what it knows.

VIA is the next hop, and MODE is routed or vxlan. STATE is installed, refused (the route is
not safe, or the host cannot be reached in the mode of the pool), conflict (another program
has a route to the block), failed, or replaced (this host has the address of the block's
host, which it replaces; the block is reclaimed later); the reason follows the table. PROBE
is the time that the host took to answer the agent's last echo request, and VERIFIED when
Nomad said last that the node has the address.

The exit code is 1 if a route is refused, in conflict or failed, a host does not answer, or
there is another problem.`

func newStatus(s *cli.Settings) *cobra.Command {
	var d cli.Display
	var f cli.AgentSocket
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the hosts of networks that span hosts, and the routes to them",
		Long:  clusterStatusLong,
		Example: `  allocnet cluster status
  allocnet cluster status --json
  allocnet cluster status -t '{{range .pools}}{{range .nodes}}{{.name}} {{.address}}{{"\n"}}{{end}}{{end}}'`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return d.Show(cmd, s.JSON, func(ctx context.Context) (cli.View, error) { return viewCluster(ctx, f.Client()) })
		},
	}
	d.Register(cmd, "names of hosts")
	f.Register(cmd)
	return cmd
}

func viewCluster(ctx context.Context, agent *client.Client) (cli.View, error) {
	all, err := agent.Cluster(ctx)
	if err != nil {
		return cli.View{}, err
	}
	v, healthy, seen := cli.View{JSON: all}, true, map[string]bool{}
	for i := range all.Pools {
		p := clusterPool{&all.Pools[i]}
		healthy = healthy && p.healthy()
		for _, n := range p.Nodes {
			if name := nodeName(n); !seen[name] {
				v.Names, seen[name] = append(v.Names, name), true
			}
		}
	}
	v.Table = func(w io.Writer, t cli.Terminal) error { return printCluster(w, t, all) }
	return v, cli.Unhealthy(healthy)
}

func printCluster(w io.Writer, t cli.Terminal, all *api.Cluster) error {
	if len(all.Pools) == 0 {
		_, err := io.WriteString(w, "no network of this host spans hosts\n")
		return err
	}
	return printApart(w, all.Pools, func(p api.ClusterPool) error { return clusterPool{&p}.print(w, t, time.Now()) })
}

type clusterPool struct{ *api.ClusterPool }

func (p clusterPool) healthy() bool {
	for _, n := range p.Nodes {
		if n.Probe != nil && n.Probe.Error != "" {
			return false
		}
		for _, r := range n.Routes {
			if !r.IsRight() {
				return false
			}
		}
	}
	return len(p.Problems) == 0
}

func (p clusterPool) print(w io.Writer, t cli.Terminal, now time.Time) error {
	if err := cli.PrintLines(w, p.summary()); err != nil {
		return err
	}
	table, remarks := cli.NewTable("NODE", "ADDRESS", "BLOCKS", "VIA", "DEVICE", "MODE", "STATE", "PROBE", "VERIFIED"), []string(nil)
	for _, n := range p.Nodes {
		for _, group := range sameWay(n.Routes) {
			table = append(table, nodeRow(n, group, now))
			if reason := group[0].Reason; reason != "" {
				remarks = append(remarks, fmt.Sprintf("%s of node %s is %s: %s", strings.Join(blocksOf(group), " "), nodeName(n), group[0].State, reason))
			}
		}
		if n.Probe != nil && n.Probe.Error != "" {
			remarks = append(remarks, fmt.Sprintf("node %s does not reply at %s: %s", nodeName(n), n.Probe.Target, n.Probe.Error))
		}
	}
	if len(table) > 1 {
		if err := table.Print(w, t.Colours); err != nil {
			return err
		}
	}
	for _, problem := range p.Problems {
		if problem.Problem != api.ProblemUnrouted {
			remarks = append(remarks, fmt.Sprintf("problem (%s): %s", problem.Problem, problem.Text))
		}
	}
	return cli.PrintLines(w, remarks...)
}

func (p clusterPool) summary() string {
	s := fmt.Sprintf("pool %s, mode %s, this host %s", p.Pool, cli.OrDash(p.Mode), cli.OrDash(p.Address))
	if p.MTU > 0 {
		s += fmt.Sprintf(", MTU %d", p.MTU)
	}
	return s + ", blocks " + cmp.Or(strings.Join(p.Blocks, " "), "none")
}

// sameWay returns the routes of a host in groups that differ in nothing but the block.
func sameWay(all []api.ClusterRoute) [][]api.ClusterRoute {
	var groups [][]api.ClusterRoute
	index := map[api.ClusterRoute]int{}
	for _, r := range all {
		key := r
		key.Block = ""
		i, ok := index[key]
		if !ok {
			i, index[key] = len(groups), len(groups)
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

func nodeRow(n api.ClusterNode, group []api.ClusterRoute, now time.Time) []cli.Cell {
	first, verified := group[0], "-"
	if !n.Verified.IsZero() {
		verified = cli.Age(now.Sub(n.Verified)) + " ago"
	}
	state := cli.Coloured(cli.Red, first.State)
	switch first.State {
	case api.RouteInstalled:
		state.Colour = cli.Green
	case api.RouteReplaced:
		state.Colour = ""
	}
	return []cli.Cell{
		cli.Text(nodeName(n)), cli.Text(n.Address), cli.Coloured("", blocksOf(group)...), cli.Text(cli.OrDash(first.Via)), cli.Text(cli.OrDash(first.Device)), cli.Text(cli.OrDash(first.Mode)), state, probeCell(n.Probe), cli.Text(verified),
	}
}

func blocksOf(group []api.ClusterRoute) []string {
	blocks := make([]string, len(group))
	for i, r := range group {
		blocks[i] = r.Block
	}
	return blocks
}

func probeCell(p *api.ClusterProbe) cli.Cell {
	switch {
	case p == nil || p.Time.IsZero():
		return cli.Text("-")
	case p.Error != "":
		return cli.Coloured(cli.Red, "no reply")
	}
	return cli.Text(latency(p.Seconds))
}

// latency prints the time of an answer within a network.
func latency(seconds float64) string { return fmt.Sprintf("%.3gms", seconds*1000) }

func nodeName(n api.ClusterNode) string { return cli.OrDash(cmp.Or(n.Name, n.ID)) }
