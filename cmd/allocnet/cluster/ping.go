// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/internal/echo"
)

type pingJSON struct {
	Pool   string `json:"pool"`
	Node   string `json:"node"`
	Target string `json:"target,omitempty"`
	// Device is the VXLAN device that the requests were sent through. Empty: none.
	Device   string `json:"device,omitempty"`
	Sent     int    `json:"sent"`
	Received int    `json:"received"`
	// Least, Mean and Most are seconds; 0 without a reply.
	Least float64 `json:"leastSeconds,omitempty"`
	Mean  float64 `json:"meanSeconds,omitempty"`
	Most  float64 `json:"mostSeconds,omitempty"`
	// Error is why a request was not answered, or not sent.
	Error string `json:"error,omitempty"`
}

type ping struct {
	cli.AgentSocket
	count int
	send  func(context.Context, echo.Request) (time.Duration, error)
}

const (
	// pingInterval is the time between two requests to a host, and pingLimit that for a reply.
	pingInterval, pingLimit = 200 * time.Millisecond, time.Second
	mostPinged              = 16
)

func newPing(s *cli.Settings) *cobra.Command {
	p := &ping{send: echo.Ping}
	cmd := &cobra.Command{
		Use:   "ping [NODE]",
		Short: "Measure the latency to the hosts of networks that span hosts",
		Long: `Send ICMP echo requests to one host, or to all that have blocks of a pool whose network
spans hosts. They go the way of the packets for the blocks: to the address of the node, through
the VXLAN device where these do. NODE is the name of the node, its ID or its address. The agent
is asked for the hosts; those that this one replaces are left out.

The exit code is 1 if a host does not reply to any request.`,
		Example: `  allocnet cluster ping
  allocnet cluster ping c2 --count 20
  allocnet cluster ping --json`,
		Args:              cli.WantArguments(0, 1, "one node, or none for all"),
		ValidArgsFunction: s.CompleteFirst(p.nodeNames),
		RunE:              func(cmd *cobra.Command, args []string) error { return p.run(cmd, s, args) },
	}
	cmd.Flags().IntVarP(&p.count, "count", "c", 5, "number of requests to each host")
	p.Register(cmd)
	return cmd
}

func (p *ping) nodeNames(_ *cli.Settings, cmd *cobra.Command, _ []string, _ string) []string {
	all, err := p.Client().Cluster(cmd.Context())
	if err != nil {
		return nil
	}
	var names []string
	for i := range all.Pools {
		for _, n := range all.Pools[i].Nodes {
			names = append(names, nodeName(n))
		}
	}
	return cli.Distinct(names)
}

func (p *ping) run(cmd *cobra.Command, s *cli.Settings, args []string) error {
	if p.count < 1 {
		return cli.Usage(fmt.Errorf("--count %d: want 1 or more", p.count))
	}
	if cli.RequireRoot() != nil {
		return cli.Usage(errors.New("this command sends ICMP echo requests the way of the packets of allocations: run as root"))
	}
	all, err := p.Client().Cluster(cmd.Context())
	if err != nil {
		return err
	}
	results, err := p.measure(cmd.Context(), all, args)
	if err != nil {
		return err
	}
	err = s.Output(cmd.OutOrStdout(), results, func(w io.Writer, _ cli.Terminal) error { return printPings(w, results) })
	silent := slices.ContainsFunc(results, func(r pingJSON) bool { return r.Received == 0 })
	return errors.Join(err, cli.Unhealthy(!silent))
}

// measure sends to all hosts that the argument names at the same time.
func (p *ping) measure(ctx context.Context, all *api.Cluster, args []string) ([]pingJSON, error) {
	results, names := []pingJSON{}, []string(nil)
	var requests []echo.Request
	for i := range all.Pools {
		pool := &all.Pools[i]
		for _, n := range pool.Nodes {
			names = append(names, nodeName(n))
			if len(args) == 0 && !isReplaced(n) || len(args) > 0 && slices.Contains([]string{n.Name, n.ID, n.Address}, args[0]) {
				r, request := pingOf(pool, n)
				results, requests = append(results, r), append(requests, request)
			}
		}
	}
	if len(args) > 0 && len(results) == 0 {
		return nil, cli.Usage(fmt.Errorf("no node %q has blocks of a pool whose network spans hosts: want one of %s", args[0], cmp.Or(strings.Join(cli.Distinct(names), ", "), "none: no other host has any")))
	}
	var group errgroup.Group
	group.SetLimit(mostPinged)
	for i := range results {
		group.Go(func() error {
			p.one(ctx, &results[i], requests[i])
			return nil
		})
	}
	return results, group.Wait()
}

// isReplaced tells whether a host had the address of this one: it is there no more.
func isReplaced(n api.ClusterNode) bool {
	return !slices.ContainsFunc(n.Routes, func(r api.ClusterRoute) bool { return r.State != api.RouteReplaced })
}

// pingOf returns where the requests to a host go. A host that is not to be asked has an error.
func pingOf(pool *api.ClusterPool, n api.ClusterNode) (pingJSON, echo.Request) {
	r := pingJSON{Pool: pool.Pool, Node: nodeName(n)}
	if n.Probe == nil {
		r.Error = "there is no route through which it would reply"
		return r, echo.Request{}
	}
	r.Target, r.Device = n.Probe.Target, n.Probe.Device
	target, err := netip.ParseAddr(r.Target)
	if err != nil {
		r.Error = err.Error()
		return r, echo.Request{}
	}
	request := echo.Request{Target: target, Device: r.Device}
	if r.Device != "" && target.Is4() {
		request.Source, _ = netip.ParseAddr(pool.Address) // without one the kernel selects it
	}
	return r, request
}

func (p *ping) one(ctx context.Context, r *pingJSON, request echo.Request) {
	if r.Error != "" {
		return
	}
	sum := time.Duration(0)
	for r.Sent < p.count && ctx.Err() == nil {
		if r.Sent > 0 {
			time.Sleep(pingInterval)
		}
		limited, stop := context.WithTimeout(ctx, pingLimit)
		took, err := p.send(limited, request)
		stop()
		r.Sent++
		if err != nil {
			r.Error = err.Error()
			continue
		}
		r.Received++
		sum += took
		if seconds := took.Seconds(); r.Received == 1 {
			r.Least, r.Most = seconds, seconds
		} else {
			r.Least, r.Most = min(r.Least, seconds), max(r.Most, seconds)
		}
		r.Mean = (sum / time.Duration(r.Received)).Seconds()
	}
}

func printPings(w io.Writer, all []pingJSON) error {
	if len(all) == 0 {
		_, err := io.WriteString(w, "no other host has blocks of a pool whose network spans hosts\n")
		return err
	}
	table, remarks := cli.NewTable("POOL", "NODE", "TARGET", "THROUGH", "SENT", "RECEIVED", "LEAST", "MEAN", "MOST"), []string(nil)
	for _, r := range all {
		least, mean, most := "-", "-", "-"
		if r.Received > 0 {
			least, mean, most = latency(r.Least), latency(r.Mean), latency(r.Most)
		}
		table.Add(r.Pool, r.Node, cli.OrDash(r.Target), cli.OrDash(r.Device), fmt.Sprint(r.Sent), fmt.Sprint(r.Received), least, mean, most)
		if r.Error != "" {
			remarks = append(remarks, fmt.Sprintf("node %s: %s", r.Node, r.Error))
		}
	}
	if err := table.Print(w, false); err != nil {
		return err
	}
	return cli.PrintLines(w, remarks...)
}
