// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
)

type checkedJSON struct {
	hook.Checked
	Error string `json:"error,omitempty"`
}

func newCheck(s *cli.Settings) *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use:   "check ID",
		Short: "Check the attachments of an allocation",
		Long: `Compare every attachment with the host and the namespace, as repair does, and change
nothing. Of plugins that allocnet does not know, CNI's CHECK is run (from CNI version
0.4.0). The outcome is ok, repairable, broken, or unknown, for example if a plugin is
missing or the record is damaged. The exit code is 1 unless all are ok.

An allocation with a damaged record is not garbage-collected, and its attachments do
not change. --repair first rewrites the record from its readable parts, libcni's cache
and the namespace. The damaged file is kept in the state directory.

The first characters of an ID are enough if no other ID begins with them.`,
		Example: `  allocnet check web-1
  allocnet check --repair web-1`,
		Args:              oneID,
		ValidArgsFunction: s.CompleteFirst(recordedIDs),
		RunE:              func(cmd *cobra.Command, args []string) error { return check(cmd, s, args[0], repair) },
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "rewrite a damaged record")
	return cmd
}

func check(cmd *cobra.Command, s *cli.Settings, id string, repair bool) error {
	engine, err := s.Engine(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if id, err = engine.Resolve(id); err != nil {
		return err
	}
	if repair {
		if err := engine.RepairRecord(cmd.Context(), id); err != nil {
			return err
		}
	}
	checked, failed := engine.Check(cmd.Context(), id)
	list := make([]checkedJSON, len(checked))
	for i, c := range checked {
		list[i] = checkedJSON{c, cli.ErrorText(c.Err)}
	}
	return errors.Join(failed, s.Output(cmd.OutOrStdout(), list, func(w io.Writer, t cli.Terminal) error { return printChecked(w, t, checked) }))
}

func printChecked(w io.Writer, t cli.Terminal, checked []hook.Checked) error {
	if len(checked) == 0 {
		return nil
	}
	table := cli.NewTable("INTERFACE", "NETWORK", "OUTCOME")
	for _, c := range checked {
		table = append(table, []cli.Cell{cli.Text(c.Interface), cli.Text(c.Network), outcomeCell(c)})
	}
	return table.Print(w, t.Colours)
}

func outcomeCell(c hook.Checked) cli.Cell {
	switch {
	case c.Unknown:
		return cli.Coloured(cli.Yellow, "unknown")
	case c.Repairable:
		return cli.Coloured(cli.Yellow, "repairable")
	case c.Err != nil:
		return cli.Coloured(cli.Red, "broken")
	case c.Skipped != "":
		return cli.Coloured(cli.Green, "ok; CHECK skipped: "+c.Skipped)
	}
	return cli.Coloured(cli.Green, "ok")
}
