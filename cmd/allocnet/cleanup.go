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

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/hostns"
	"github.com/allocnet/allocnet/internal/unit"
	"github.com/allocnet/allocnet/state"
)

func newCleanup(s *cli.Settings) *cobra.Command {
	var forget bool
	cmd := &cobra.Command{
		Use:   "cleanup ID",
		Short: "Remove all objects of a dead allocation from the host",
		Long: `Tear down a dead allocation, then remove its remaining objects by force: rules of
all backends, leases, devices, saved settings and cached results. The allocation need
not be recorded: allocnet finds objects by the allocation ID in them, also those of
other runtimes and unknown networks.

A live allocation is refused. With --forget, the record is dropped even if an object
cannot be removed, for plugins whose DEL will never succeed, or if none of its attachments
can be read and nothing on the host shows that the allocation lives.

The first 8 characters or more of a recorded ID of Nomad are enough if no other recorded
ID begins with them.`,
		Example: `  allocnet cleanup 5c2e9a0e-7a3c-4f5e-8a8e-0d4f9c1b2a33
  allocnet cleanup 5c2e9a0e
  allocnet cleanup web-1 --forget`,
		Args:              oneID,
		ValidArgsFunction: s.CompleteFirst(recordedIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cleanUp(cmd, s, args[0], forget)
		},
	}
	cmd.Flags().BoolVar(&forget, "forget", false, "drop the record even if an object cannot be removed, or no attachment can be read")
	return cmd
}

func cleanUp(cmd *cobra.Command, s *cli.Settings, id string, forget bool) error {
	ctx := cmd.Context()
	if err := state.ValidateID(id); err != nil {
		return err
	}
	shown, end := s.Progress(cmd.ErrOrStderr(), "cleaning up after "+id)
	defer end()
	engine, err := s.Engine(shown, shown)
	if err != nil {
		return err
	}
	if err := hostns.Check(); err != nil {
		return err
	}
	if id, err = resolveToRemove(s, cmd.ErrOrStderr(), engine, id); err != nil {
		return err
	}
	collector := engine.Collector()
	before, err := examineDead(ctx, collector, cleanup.Scope{Allocation: id, Forget: forget})
	if err != nil {
		return err
	}
	remove := engine.TearDownDead
	if forget {
		remove = engine.Forget
	}
	failed := remove(ctx, id)
	if errors.Is(failed, hook.ErrAlive) { // set up since the examination
		return failed
	}
	report, err := collector.Collect(ctx, cleanup.Scope{Allocation: id}, cleanup.NoneLive)
	end()
	if report == nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, err, printCleanup(cmd.OutOrStdout(), id, before, report, s.JSON))
}

func examineDead(ctx context.Context, collector *cleanup.Collector, scope cleanup.Scope) (*cleanup.Report, error) {
	report, err := collector.Examine(ctx, scope, cleanup.NoneLive)
	if err != nil {
		return nil, err
	}
	if report.Alive != "" {
		return nil, cli.Usage(fmt.Errorf("allocation %s is not dead: %s", scope.Allocation, report.Alive))
	}
	for _, d := range report.Decisions {
		if !d.Leaked {
			return nil, cli.Usage(fmt.Errorf("allocation %s is not dead: %s: %s", scope.Allocation, d.Where, d.Reason))
		}
	}
	return report, nil
}

type cleanedJSON struct {
	ID      string             `json:"id"`
	Removed []cleanup.Decision `json:"removed"`
}

func printCleanup(w io.Writer, id string, before, after *cleanup.Report, asJSON bool) error {
	removed := before.GoneBy(after)
	if asJSON {
		return cli.PrintJSON(w, cleanedJSON{id, removed})
	}
	if len(before.Decisions) == 0 {
		_, err := fmt.Fprintf(w, "no objects of allocation %s on this host\n", id)
		return err
	}
	return printObjects(w, "REMOVED", removed)
}

func printObjects(w io.Writer, title string, decisions []cleanup.Decision) error {
	if len(decisions) == 0 {
		return nil
	}
	table := cli.NewTable("KIND", title, "OWNER", "REASON")
	for _, d := range decisions {
		reason := d.Reason
		if d.Blocked != "" {
			reason = "BLOCKED: " + d.Blocked
		}
		table.Add(string(d.Kind), d.Where, d.Owner.String(), reason)
	}
	return table.Print(w, false)
}

type collected struct {
	*hook.Collected
	*cleanup.Report
	Failures []string `json:"failures,omitempty"`
}

const gcLong = `Find and remove the objects of dead allocations, in three steps: tear down the
recorded allocations that are dead, run CNI's GC on the networks whose plugins support
it, then remove the remaining objects by force, many rules in one transaction.

Only objects of recorded networks, and of those in the CNI configuration directories,
are removed. Those of dead allocations on other or unknown networks are listed as NOT
REMOVED; allocnet cleanup ID removes them. An allocation is live, with all its objects, if
its namespace exists, if libcni's cache or an address in a namespace is evidence for it, or
if --live names it. If the list of --live cannot be read, nothing is removed and the exit
code is 1. A warning names the IDs that nothing on this host has, but for complete ones of
Nomad, whose allocations may have no networks. If nothing has any of them, and something
would be removed, nothing is, and the exit code is 2.

If another runtime attaches to the same networks, name its allocations with --live:
there is no liveness evidence of a set-up that has just started.`

type gcFlags struct {
	live    liveList
	network string
	dryRun  bool
}

func newGC(s *cli.Settings) *cobra.Command {
	var f gcFlags
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Garbage-collect dead allocations and leaks",
		Long:  gcLong,
		Example: `  allocnet gc --dry-run
  allocnet gc --network web
  allocnet gc --live web-1,web-2 --json
  allocnet gc --live @/run/live-allocations`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	cmd.Flags().Var(&f.live, "live", "complete IDs of live allocations, separated by ','; @FILE reads them from a file, @- from standard input (default: records and namespaces decide)")
	cmd.Flags().StringVar(&f.network, "network", "", "only attachments to this network (default: all)")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "show what would be removed, and remove nothing")
	return cmd
}

func (f *gcFlags) run(cmd *cobra.Command, s *cli.Settings) error {
	live, err := cleanup.QueryLive(cmd.Context(), f.live.sources(cmd)...)
	if err != nil {
		return err
	}
	return f.collect(cmd, s, hook.GCRequest{
		// The list is read once: it may be standard input.
		Live:    func(context.Context) (cleanup.Live, error) { return live, nil },
		Network: f.network, DryRun: f.dryRun,
	})
}

func (f *gcFlags) collect(cmd *cobra.Command, s *cli.Settings, r hook.GCRequest) error {
	shown, end := s.Progress(cmd.ErrOrStderr(), "gc")
	engine, err := s.Engine(shown, shown)
	if err != nil {
		end()
		return err
	}
	if err := f.live.noteUnrecognised(cmd, s, engine); err != nil {
		end()
		return err
	}
	r.Progress = func(done, of int) { shown.Step(fmt.Sprintf("cleaned up after %d of %d allocations", done, of), s.JSON) }
	done, err := engine.GC(cmd.Context(), r)
	end()
	if done == nil {
		return err
	}
	if r.DryRun {
		return errors.Join(err, printGC(cmd, s.JSON, true, nil, done.Leaks))
	}
	return errors.Join(err, unit.RemoveAbandonedOutcomes(unit.OutcomeDir), printGC(cmd, s.JSON, false, done, done.Leaks))
}

func printGC(cmd *cobra.Command, asJSON, dryRun bool, torn *hook.Collected, report *cleanup.Report) error {
	if report == nil {
		return nil
	}
	out := cmd.OutOrStdout()
	if asJSON {
		shown := *report
		shown.Decisions = slices.Concat(report.Gone(), report.Orphaned())
		c := collected{Collected: torn, Report: &shown}
		for _, f := range report.Failures {
			c.Failures = append(c.Failures, f.Error())
		}
		return cli.PrintJSON(out, c)
	}
	title := "REMOVED"
	if dryRun {
		title = "LEAKED"
	}
	for _, p := range report.Problems {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "allocnet: skipped: %s\n", cli.Printable(fmt.Sprint(p))) // there is no other output
	}
	if torn != nil {
		printTornDown(out, torn)
	}
	for _, table := range []struct {
		title     string
		decisions []cleanup.Decision
	}{{title, report.Gone()}, {"NOT REMOVED", report.Orphaned()}} {
		if err := printObjects(out, table.title, table.decisions); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(out, summary(dryRun, report))
	return err
}

// summary counts what was found after the teardowns and the plugins' GC, which remove
// without counting.
func summary(dryRun bool, report *cleanup.Report) string {
	leaked, orphaned := len(report.Leaked()), len(report.Orphaned())
	done := fmt.Sprintf("%d leaked, %d removed by force", leaked, report.Removed)
	switch {
	case dryRun:
		done = fmt.Sprintf("%d leaked, none removed", leaked)
	case leaked == 0:
		done = "no leaks were left to remove by force"
	}
	return fmt.Sprintf("%s; objects of live or unknown owners: %d", done, len(report.Decisions)-leaked-orphaned)
}

func printTornDown(out io.Writer, torn *hook.Collected) {
	if len(torn.TornDown) > 0 {
		_, _ = fmt.Fprintf(out, "torn down from their records: %s\n", cli.Printable(strings.Join(torn.TornDown, ", "))) // the last line reports an error of the writer
	}
	for _, id := range slices.Sorted(maps.Keys(torn.Postponed)) {
		_, _ = fmt.Fprintf(out, "%s: %s; to retry now: allocnet detach %s\n", id, cli.Printable(fmt.Sprint(torn.Postponed[id])), id) // as above
	}
}

var _ cleanup.Source = (*liveList)(nil)

// Live returns the IDs; see cleanup.Source.
func (l *liveList) Live(context.Context) ([]string, error) { return l.read() }
