// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package traffic

import (
	"errors"
	"io"
	"net/netip"
	"slices"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/isolation"
)

const reachLong = `Send packets from the namespaces of allocations, and tell what works and what to look at
next: the gateways of each network, up to three other allocations of this host on it, a
packet as long as the MTU, which nothing on the way may take apart, the name servers, and,
from this host, the published ports of TCP. Without an ID, all allocations are tested.

Nothing is changed. All is probed at once, and each probe waits for 3 seconds at most. What
the rules of isolation deny is skipped, and the reason is told. That nothing listens behind
a published port is a failure.

The exit code is 1 if something failed. The first characters of an ID are enough if no other
ID begins with them.`

// NewReach returns the command test, which completes IDs with those that are recorded.
func NewReach(s *cli.Settings, recordedIDs cli.Complete) *cobra.Command {
	return &cobra.Command{
		Use:   "test [ID]",
		Short: "Tell what allocations reach on their networks",
		Long:  reachLong,
		Example: `  allocnet test web-1
  allocnet test --json`,
		Args:              cli.WantArguments(0, 1, "the ID of an allocation, or none for all"),
		ValidArgsFunction: s.CompleteFirst(recordedIDs),
		RunE:              func(cmd *cobra.Command, args []string) error { return reach(cmd, s, args) },
	}
}

func reach(cmd *cobra.Command, s *cli.Settings, args []string) error {
	if cli.RequireRoot() != nil {
		return cli.Usage(errors.New("this command sends packets from the namespaces of allocations: run as root"))
	}
	t, engine, err := readTraffic(cmd, s, &rulesFlag{isolation.DefaultFile})
	if engine == nil || err != nil && len(t.allocations) == 0 {
		return err
	}
	id, what := "", "all allocations"
	if len(args) > 0 {
		if id, err = engine.Resolve(args[0]); err != nil {
			return err
		}
		what = id
	}
	p, failedToList := newProber(t, s)
	probes := []*probe{}
	for _, a := range t.allocations {
		if id == "" || a.ID == id {
			probes = append(probes, p.probes(engine.Current(a))...)
		}
	}
	s.Meanwhile(cmd.ErrOrStderr(), "testing "+what, func() { probeAll(cmd.Context(), probes, engine.OpenNamespace) })
	shown := s.Output(cmd.OutOrStdout(), probes, func(w io.Writer, t cli.Terminal) error { return printProbes(w, t, probes) })
	healthy := !slices.ContainsFunc(probes, func(r *probe) bool { return r.Outcome == failed })
	return errors.Join(err, failedToList, shown, cli.Unhealthy(healthy))
}

// newProber lists what the host has. What cannot be listed is in the error.
func newProber(t traffic, s *cli.Settings) (*prober, error) {
	p := &prober{traffic: t}
	catalog, err := cniconf.Load(s.ConfDirs()...)
	if err == nil {
		p.networks = catalog.Networks
	} else if errors.Is(err, cniconf.ErrNoDir) { // the records have the rest
		err = nil
	}
	links, failed := netns.OwnInterfaces()
	var gateways []netip.Addr
	for _, link := range links {
		for _, address := range link.Addresses {
			p.own = append(p.own, address.Addr())
			switch {
			case !link.Up || address.Addr().IsLoopback():
			case isGateway(p.networks, t.allocations, address.Addr()):
				gateways = append(gateways, address.Addr())
			default:
				p.outward = append(p.outward, address.Addr())
			}
		}
	}
	p.outward = append(p.outward, gateways...) // published ports are on these, too
	return p, errors.Join(err, failed)
}

// isGateway tells whether an address is one that a network gives the host.
func isGateway(networks []*cniconf.Network, allocations []*hook.Allocation, address netip.Addr) bool {
	for _, n := range networks {
		if slices.ContainsFunc(n.HostAddresses(), func(h cniconf.HostAddress) bool { return h.Address.Addr() == address }) {
			return true
		}
	}
	for _, a := range allocations {
		if slices.ContainsFunc(a.Attachments, func(n hook.Attachment) bool { return slices.Contains(n.Gateways, address) }) {
			return true
		}
	}
	return false
}

func printProbes(w io.Writer, t cli.Terminal, probes []*probe) error {
	if len(probes) == 0 {
		return cli.PrintLines(w, "no allocation has an attachment here")
	}
	colours := map[outcome]cli.Colour{works: cli.Green, failed: cli.Red, skipped: cli.Yellow}
	table := cli.NewTable("ALLOCATION", "INTERFACE", "NETWORK", "PROBE", "TARGET", "OUTCOME", "DETAIL", "NEXT")
	for _, r := range probes {
		table = append(table, []cli.Cell{
			cli.Text(r.Allocation), cli.Text(cli.OrDash(r.Interface)), cli.Text(cli.OrDash(r.Network)), cli.Text(r.Kind), cli.Text(cli.OrDash(r.Target)),
			cli.Coloured(colours[r.Outcome], string(r.Outcome)), cli.Text(cli.OrDash(r.Detail)), cli.Text(cli.OrDash(r.Next)),
		})
	}
	return table.Print(w, t.Colours)
}
