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
		Long: `Show one allocation, or all. Nothing is run and nothing is locked, so an
allocation that is being set up or torn down shows as it is at that instant.

Phases: adding (set-up under way or cut off), attached, deleting (teardown under
way or cut off), pending (teardown failed; detach tries again).`,
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
			allocation, err := engine.Status(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return printAllocation(cmd.OutOrStdout(), allocation, s.json)
		},
	}
}

// listAll prints what can be read and fails with what cannot.
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
		Short: "Check that an allocation's networks are as they were set up",
		Long: `Compare every attachment with the namespace, and have its plugins check it
(CNI's CHECK, from version 0.4.0 on). The exit code is 1 when one is not as it
was set up, and also when that cannot be told, as with a plugin that is missing or a
damaged record.

A damaged record keeps its allocation from being collected, and the networks as
they are. With --repair it is written anew first: from the parts that can be read,
libcni's cache and the namespace. The damaged file is kept in the state directory.`,
		Example: `  allocnet check web-1
  allocnet check --repair web-1`,
		Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := s.engine(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if repair {
				if err := engine.Repair(cmd.Context(), args[0]); err != nil {
					return err
				}
			}
			checked, failed := engine.Check(cmd.Context(), args[0])
			if s.json {
				return errors.Join(failed, printCheckedJSON(cmd.OutOrStdout(), checked))
			}
			return errors.Join(failed, printChecked(cmd.OutOrStdout(), checked))
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "write a damaged record anew")
	return cmd
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
		outcome := "as set up"
		switch {
		case c.Unknown:
			outcome = "cannot tell"
		case c.Err != nil:
			outcome = "changed"
		case c.Skipped != "":
			outcome = "as set up; plugins not asked: " + c.Skipped
		}
		_, _ = fmt.Fprintln(table, strings.Join([]string{c.Interface, c.Network, outcome}, "\t"))
	}
	return table.Flush()
}
