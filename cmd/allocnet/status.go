// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/hook"
)

func newStatus(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "status [ID]",
		Short: "Show allocations and their attachments",
		Long: `Show one allocation, or all. The command runs no plugin and takes no lock, so it
shows the momentary state of an allocation that is being set up or torn down. The
first characters of an ID are enough if no other ID begins with them.

Phases: adding (set-up in flight or interrupted), attached, deleting (teardown in
flight or interrupted), pending (teardown failed; detach retries).`,
		Example: `  allocnet status
  allocnet status web-1
  allocnet status web-1 --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(fmt.Errorf("got %d arguments: want one ID or none", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := s.engine(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return listAll(cmd, engine, s.json)
			}
			id, err := engine.Resolve(args[0])
			if err != nil {
				return err
			}
			allocation, err := engine.Status(cmd.Context(), id)
			if err != nil {
				return err
			}
			return printAllocation(cmd.OutOrStdout(), allocation, s.json)
		},
	}
}

// listAll prints the readable records, and returns the errors of the others.
func listAll(cmd *cobra.Command, engine *hook.Engine, asJSON bool) error {
	allocations := []*hook.Allocation{}
	var errs []error
	for allocation, err := range engine.List(cmd.Context()) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		allocations = append(allocations, allocation)
	}
	if asJSON {
		list := make([]allocationJSON, len(allocations))
		for i, a := range allocations {
			list[i] = allocationJSON{a, a.NetworkStatus()}
		}
		return errors.Join(append(errs, printJSON(cmd.OutOrStdout(), list))...)
	}
	return errors.Join(append(errs, printTable(cmd.OutOrStdout(), allocations))...)
}

// checkedJSON is an attachment's check as --json prints it.
type checkedJSON struct {
	hook.Checked
	Error string `json:"error,omitempty"`
}

func newCheck(s *settings) *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use:   "check ID",
		Short: "Check the attachments of an allocation",
		Long: `Compare every attachment with the namespace, and run CNI's CHECK of its plugins
(from CNI version 0.4.0). The outcome is ok, failed, or unknown, for example if a
plugin is missing or the record is damaged. The exit code is 1 unless all are ok.

An allocation with a damaged record is not garbage-collected, and its attachments do
not change. --repair first rewrites the record from its readable parts, libcni's cache
and the namespace. The damaged file is kept in the state directory.

The first characters of an ID are enough if no other ID begins with them.`,
		Example: `  allocnet check web-1
  allocnet check --repair web-1`,
		Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error { return check(cmd, s, args[0], repair) },
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "rewrite a damaged record")
	return cmd
}

func check(cmd *cobra.Command, s *settings, id string, repair bool) error {
	engine, err := s.engine(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if id, err = engine.Resolve(id); err != nil {
		return err
	}
	if repair {
		if err := engine.Repair(cmd.Context(), id); err != nil {
			return err
		}
	}
	checked, failed := engine.Check(cmd.Context(), id)
	if s.json {
		return errors.Join(failed, printCheckedJSON(cmd.OutOrStdout(), checked))
	}
	return errors.Join(failed, printChecked(cmd.OutOrStdout(), checked))
}

func printCheckedJSON(w io.Writer, checked []hook.Checked) error {
	list := make([]checkedJSON, len(checked))
	for i, c := range checked {
		list[i].Checked = c
		if c.Err != nil {
			list[i].Error = c.Err.Error()
		}
	}
	return printJSON(w, list)
}

func printChecked(w io.Writer, checked []hook.Checked) error {
	if len(checked) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "INTERFACE\tNETWORK\tOUTCOME") // Flush reports
	for _, c := range checked {
		outcome := "ok"
		switch {
		case c.Unknown:
			outcome = "unknown"
		case c.Err != nil:
			outcome = "failed"
		case c.Skipped != "":
			outcome = "ok; CHECK skipped: " + c.Skipped
		}
		_, _ = fmt.Fprintln(table, strings.Join([]string{c.Interface, c.Network, outcome}, "\t"))
	}
	return table.Flush()
}
