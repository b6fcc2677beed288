// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
)

type driftJSON struct {
	hook.Drift
	Error string `json:"error,omitempty"`
}

func newRepair(s *cli.Settings) *cobra.Command {
	var dryRun, reattach bool
	cmd := &cobra.Command{
		Use:   "repair [ID...]",
		Short: "Make what running allocations lack again",
		Long: `Compare running allocations, or those with the given IDs, with the host, and make
what is missing: rules of published ports, masquerading and the firewall, bridges with
their ports, addresses and MTU, host routes, and in the namespaces the interfaces'
state, addresses and routes, settings and limits. Whatever is there stays as it is, so
established connections survive.

An attachment whose interface is gone, or whose plugins allocnet does not know and
whose CHECK fails twice, has to be attached again. With --reattach that is done, with
the same interface name, addresses, MAC and ports; otherwise it is only reported.

An allocation that another call is changing is skipped. The exit code is 1 if one was,
if something is missing afterwards, or with --dry-run if something is missing. The first
characters of an ID are enough if no other ID begins with them.`,
		Example: `  allocnet repair --dry-run
  allocnet repair
  allocnet repair web-1
  allocnet repair --reattach web-1`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: s.CompleteAll(recordedIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			return repair(cmd, s, args, repairMode(dryRun, reattach))
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "report what is missing, and change nothing")
	cmd.Flags().BoolVar(&reattach, "reattach", false, "attach again what only comes back so; it is interrupted meanwhile")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "reattach")
	return cmd
}

func repairMode(dryRun, reattach bool) hook.RepairMode {
	switch {
	case dryRun:
		return hook.RepairReport
	case reattach:
		return hook.RepairReattach
	}
	return hook.RepairRules
}

func repair(cmd *cobra.Command, s *cli.Settings, ids []string, mode hook.RepairMode) error {
	engine, err := s.Engine(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	for i, id := range ids {
		if ids[i], err = engine.Resolve(id); err != nil {
			return err
		}
	}
	ids = cli.Distinct(ids) // the same one twice would find itself locked
	var drifts []hook.Drift
	s.Meanwhile(cmd.ErrOrStderr(), "comparing the allocations with the host", func() {
		drifts, err = engine.RepairAttachments(cmd.Context(), hook.RepairRequest{IDs: ids, Mode: mode})
	})
	list := make([]driftJSON, len(drifts))
	for i, d := range drifts {
		list[i] = driftJSON{d, cli.ErrorText(d.Err)}
	}
	return errors.Join(err, s.Output(cmd.OutOrStdout(), list, func(w io.Writer, t cli.Terminal) error { return printDrifts(w, t, drifts) }), openDrifts(drifts))
}

func openDrifts(drifts []hook.Drift) error {
	var errs []error
	lacking := 0
	for _, d := range drifts {
		switch {
		case d.Skipped == hook.SkippedBusy:
			errs = append(errs, fmt.Errorf("allocation %s is not compared with the host: %s", d.Allocation, d.Skipped))
		case d.Err != nil:
			errs = append(errs, d.Err)
		case d.Open():
			lacking++
		}
	}
	if lacking > 0 {
		errs = append(errs, errors.New(lackingText(lacking)))
	}
	return errors.Join(errs...)
}

func lackingText(count int) string {
	if count == 1 {
		return "1 attachment lacks what was made for it"
	}
	return fmt.Sprintf("%d attachments lack what was made for them", count)
}

func printDrifts(w io.Writer, t cli.Terminal, drifts []hook.Drift) error {
	if len(drifts) == 0 {
		_, err := fmt.Fprintln(w, "Nothing is missing.")
		return err
	}
	name, table := func(id string) string { return id }, cli.NewTable("ALLOCATION", "INTERFACE", "NETWORK", "OUTCOME")
	if t.Columns > 0 {
		short := shortIDs(allocationsOf(drifts))
		name = func(id string) string { return cmp.Or(short[id], id) }
	}
	for _, d := range drifts {
		table = append(table, []cli.Cell{cli.Text(name(d.Allocation)), cli.Text(d.Interface), cli.Text(d.Network), repairCell(d)})
	}
	room := t.Columns - table.Width() - len(cli.Gap)
	table[0] = append(table[0], cli.Text("MISSING"))
	for i, d := range drifts {
		table[i+1] = append(table[i+1], missingCell(append(d.Missing, d.Unrepairable...), room))
	}
	return table.Print(w, t.Colours)
}

func allocationsOf(drifts []hook.Drift) []string {
	ids := make([]string, len(drifts))
	for i, d := range drifts {
		ids[i] = d.Allocation
	}
	return cli.Distinct(ids)
}

// leastRoom is a width to which texts are not broken: the table is too wide for the terminal anyway.
const leastRoom = 16

// missingCell has a line for each text, broken if there is a terminal with room for that.
func missingCell(missing []string, room int) cli.Cell {
	if room < leastRoom {
		return cli.Coloured("", missing...)
	}
	var lines []string
	for _, text := range missing {
		for i, line := range cli.Wrap(text, room-len(cli.Gap)) {
			if i > 0 {
				line = cli.Gap + line
			}
			lines = append(lines, line)
		}
	}
	return cli.Coloured("", lines...)
}

func repairCell(d hook.Drift) cli.Cell {
	switch {
	case d.Skipped != "":
		return cli.Coloured(cli.Yellow, "skipped: "+d.Skipped)
	case d.Repaired && d.Reattached:
		return cli.Coloured(cli.Green, "attached again")
	case d.Repaired:
		return cli.Coloured(cli.Green, "repaired")
	case d.Err != nil:
		return cli.Coloured(cli.Red, "failed")
	case len(d.Unrepairable) > 0:
		return cli.Coloured(cli.Red, "to be attached again")
	}
	return cli.Coloured(cli.Yellow, "missing")
}
