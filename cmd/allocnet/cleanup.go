// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/hostns"
	"github.com/allocnet/allocnet/internal/unit"
	"github.com/allocnet/allocnet/state"
)

func newCleanup(s *settings) *cobra.Command {
	var forget bool
	cmd := &cobra.Command{
		Use:   "cleanup ID",
		Short: "Remove everything that a dead allocation left on the host",
		Long: `Take an allocation down, and remove by force what is left of it: rules of all
backends, leases, devices, saved settings and cached results. It need not be on
record: any allocation whose ID the objects carry can be cleaned up, another
runtime's too.

An allocation that lives is refused. With --forget its record goes even when
something could not be removed, for plugins that will never succeed.`,
		Example: `  allocnet cleanup 5c2e9a0e-7a3c-4f5e-8a8e-0d4f9c1b2a33
  allocnet cleanup web-1 --forget`,
		Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			return cleanUp(cmd, s, args[0], forget)
		},
	}
	cmd.Flags().BoolVar(&forget, "forget", false, "drop the record even if something could not be removed")
	return cmd
}

func cleanUp(cmd *cobra.Command, s *settings, id string, forget bool) error {
	ctx := cmd.Context()
	if err := state.ValidateID(id); err != nil {
		return err
	}
	if err := hostns.Check(); err != nil {
		return err
	}
	engine, err := s.engine(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	collector, err := s.collector(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	before, _, err := collector.Examine(ctx, cleanup.Scope{Allocation: id}, cleanup.NoneLive)
	if err != nil {
		return err
	}
	if before.Alive != "" {
		return usage(fmt.Errorf("allocation %s is not dead: %s", id, before.Alive))
	}
	for _, v := range before.Decisions {
		if !v.Leaked {
			return usage(fmt.Errorf("allocation %s is not dead: %s: %s", id, v.Where, v.Reason))
		}
	}
	failed := engine.TearDownDead(ctx, id)
	if errors.Is(failed, hook.ErrAlive) { // set up since it was looked at
		return failed
	}
	if failed != nil && forget {
		failed = engine.Forget(ctx, id)
	}
	report, err := collector.Collect(ctx, cleanup.Scope{Allocation: id}, cleanup.NoneLive)
	if report == nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, err, printCleanup(cmd.OutOrStdout(), id, before, report, s.json))
}

// printCleanup prints what was there before, without what is there still.
func printCleanup(w io.Writer, id string, before, after *cleanup.Report, asJSON bool) error {
	before.Failures = after.Failures
	removed := before.Gone()
	if asJSON {
		return printJSON(w, map[string]any{"id": id, "removed": removed})
	}
	if len(before.Decisions) == 0 {
		_, err := fmt.Fprintf(w, "nothing of allocation %s is left on this host\n", id)
		return err
	}
	return printObjects(w, "REMOVED", removed)
}

func printObjects(w io.Writer, title string, decisions []cleanup.Decision) error {
	if len(decisions) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "KIND\t%s\tOWNER\tREASON\n", title) // Flush reports
	for _, v := range decisions {
		why := v.Reason
		if v.Blocked != "" {
			why = "BLOCKED: " + v.Blocked
		}
		_, _ = fmt.Fprintln(table, strings.Join([]string{string(v.Kind), v.Where, v.Owner.String(), why}, "\t"))
	}
	return table.Flush()
}

// collector opens what finds and removes leaks.
func (s *settings) collector(stderr io.Writer) (*cleanup.Collector, error) {
	log, err := s.logger(stderr)
	if err != nil {
		return nil, err
	}
	store, err := state.Open(s.stateDir)
	if err != nil {
		return nil, err
	}
	return &cleanup.Collector{Store: store, ConfDirs: s.confDirs(), Logger: log}, nil
}

// collected is what gc prints.
type collected struct {
	*hook.Collected
	*cleanup.Report
	Failures []string `json:"failures,omitempty"`
}

func newGC(s *settings) *cobra.Command {
	var live liveList
	var network string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove what dead allocations left on the host",
		Long: `Find and remove what dead allocations left: first those on record whose
namespace is gone are taken down, then CNI's GC runs on the networks whose
plugins have it, then what is left is removed by force, many rules in one
transaction.

Only objects of networks of the conf directory, or of recorded ones, are touched.
An allocation lives when its namespace does, when libcni's cache or an address in
some namespace says so, or when --live names it. When the list of --live cannot
be had, nothing is removed and the exit code is 1.

Where another program attaches to the same networks, name its allocations with
--live: a set-up of its own that has only just begun shows no sign of life.`,
		Example: `  allocnet gc --dry-run
  allocnet gc --network web
  allocnet gc --live web-1,web-2 --json
  allocnet gc --live @/run/live-allocations`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := hostns.Check(); err != nil {
				return err
			}
			collector, err := s.collector(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			lives, err := cleanup.QueryLive(cmd.Context(), live.sources(cmd)...)
			if err != nil {
				return err
			}
			scope := cleanup.Scope{Network: network}
			if dryRun {
				report, _, err := collector.Examine(cmd.Context(), scope, lives)
				return errors.Join(err, printGC(cmd, s.json, true, nil, report))
			}
			return collect(cmd, s, collector, scope, lives)
		},
	}
	cmd.Flags().Var(&live, "live", "IDs of living allocations, separated by ','; @FILE reads them from a file, @- from standard input (default: records and namespaces alone decide)")
	cmd.Flags().StringVar(&network, "network", "", "only what is attached to this network (default: all)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be removed, and remove nothing")
	return cmd
}

func collect(cmd *cobra.Command, s *settings, collector *cleanup.Collector, scope cleanup.Scope, live cleanup.Live) error {
	ctx := cmd.Context()
	engine, err := s.engine(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	var networks []string
	if scope.Network != "" {
		networks = []string{scope.Network}
	}
	torn, tearErr := engine.GC(ctx, func(id string) bool { return live(id) != "" }, networks...)
	tearErr = errors.Join(tearErr, unit.RemoveAbandonedOutcomes(unit.OutcomeDir))
	collector.Progress = func(done, of int) {
		if done < of { // the end shows in what is printed then
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "allocnet: cleaned up after %d of %d allocations\n", done, of) // nobody to tell
		}
	}
	report, err := collector.Collect(ctx, scope, live)
	return errors.Join(tearErr, err, printGC(cmd, s.json, false, torn, report))
}

func printGC(cmd *cobra.Command, asJSON, dryRun bool, torn *hook.Collected, report *cleanup.Report) error {
	if report == nil {
		return nil
	}
	out := cmd.OutOrStdout()
	leaked := report.Leaked()
	kept := len(report.Decisions) - len(leaked)
	shown := *report
	shown.Decisions = report.Gone()
	if asJSON {
		c := collected{Collected: torn, Report: &shown}
		for _, f := range report.Failures {
			c.Failures = append(c.Failures, f.Error())
		}
		return printJSON(out, c)
	}
	title, done := "REMOVED", fmt.Sprintf("%d removed by force", report.Removed)
	if dryRun {
		title, done = "LEAKED", "none removed"
	}
	for _, p := range report.Problems {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "allocnet: skipped: %s\n", p) // nobody to tell
	}
	if torn != nil {
		printTornDown(out, torn)
	}
	if err := printObjects(out, title, shown.Decisions); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d leaked, %s, %d of living or unknown owners\n", len(leaked), done, kept)
	return err
}

// printTornDown says what GC took down, and what it will.
func printTornDown(out io.Writer, torn *hook.Collected) {
	if len(torn.TornDown) > 0 {
		_, _ = fmt.Fprintf(out, "taken down from their records: %s\n", strings.Join(torn.TornDown, ", ")) // the next line tells of the error
	}
	for _, id := range slices.Sorted(maps.Keys(torn.Postponed)) {
		_, _ = fmt.Fprintf(out, "%s: %s; at once: allocnet detach %s\n", id, torn.Postponed[id], id) // as above
	}
}

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(fmt.Errorf("got %q: want no arguments", args))
	}
	return nil
}

var _ cleanup.Source = (*liveList)(nil)

// Live returns the IDs; see cleanup.Source.
func (l *liveList) Live(context.Context) ([]string, error) { return l.read() }
