// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/event"
	"github.com/allocnet/allocnet/state"
)

const eventsLong = `Show what was attached, detached, retried, refused, repaired and collected on this
host, by which caller, and how long it took, the oldest first. The command reads files of
the state directory, and needs no agent.

Events: attached, attach retried, attach failed, attach refused, rolled back (removed
because another attachment of the call failed), detached, detach failed, cleaned up
(removed by force), cleanup failed, collected (by a garbage collection), repaired, repair
failed, pool problem, pool recovered.

About the last 6,000 events are kept, in 2.5 MB. If one job causes too many, its own oldest
ones are dropped first.

With --follow the command prints new events as they come, until it is interrupted. --json
prints an object on a line for each event. --after continues after the index of one.

With --denied it shows flows that isolation denied instead, and packets that attachments sent
as others, as the agent of this host was told of them: of many packets the kernel tells of
some. Packets of one flow are one line, with how many of them were told of. The agent keeps
1,000 flows, in memory. How many packets were dropped, "allocnet status" has.`

type eventsFlags struct {
	event.Filter
	follow, denied bool
	since          string
	socket         cli.AgentSocket
}

func newEvents(s *cli.Settings) *cobra.Command {
	var f eventsFlags
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what was attached, detached and collected, by which caller",
		Long:  eventsLong,
		Example: `  allocnet events
  allocnet events --network storage
  allocnet events --allocation web-1 --json
  allocnet events --since 10m
  timeout 2 allocnet events --follow || test $? = 124
  allocnet events --denied --network storage || test $? = 1`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "print new events as they come")
	f.socket.Register(cmd)
	cmd.Flags().BoolVar(&f.denied, "denied", false, "flows that isolation denied, which the agent knows")
	cmd.Flags().StringVar(&f.Allocation, "allocation", "", "only events of this allocation; of an ID of Nomad, the first characters are enough (default: all)")
	cmd.Flags().StringVar(&f.Network, "network", "", "only events of this network (default: all)")
	cmd.Flags().StringVar(&f.since, "since", "", "only events of this time and later: a duration before now, such as 90s or 2h, a date, or a time such as 2026-01-31T15:04:05Z (default: all)")
	cmd.Flags().Uint64Var(&f.After, "after", 0, "only events after the one with this index; if there is no such event any more, all")
	return cmd
}

func (f *eventsFlags) run(cmd *cobra.Command, s *cli.Settings) error {
	if f.Allocation != "" {
		if err := state.ValidateID(f.Allocation); err != nil {
			return err
		}
	}
	var err error
	if f.Since, err = sinceOf(f.since, time.Now()); err != nil {
		return err
	}
	if f.denied {
		return f.runDenied(cmd, s)
	}
	out := cmd.OutOrStdout()
	printEvent := json.NewEncoder(out).Encode
	if !s.JSON {
		lines := &eventLines{w: out, Terminal: cli.TerminalOf(out)}
		if err := lines.heading(); err != nil {
			return err
		}
		printEvent = func(e any) error { return lines.print(e.(event.Event)) }
	}
	for e, err := range (event.Log{StateDir: s.StateDir}).Events(cmd.Context(), f.Filter, f.follow) {
		if err != nil {
			return err
		}
		if err := printEvent(e); err != nil {
			return err
		}
	}
	return nil
}

// sinceOf reads a time, or a duration before now; empty: the zero time. A date is a day of the local time.
func sinceOf(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, text, now.Location()); err == nil {
		return t, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	return time.Time{}, cli.Usage(fmt.Errorf("--since %s: want a duration such as 90s or 2h, a date such as 2026-01-31, or a time such as 2026-01-31T15:04:05Z", text))
}

func eventIDs(s *cli.Settings, cmd *cobra.Command, _ []string, _ string) []string {
	var ids []string
	for e, err := range (event.Log{StateDir: s.StateDir}).Events(cmd.Context(), event.Filter{}, false) {
		if err == nil && e.Allocation != "" {
			ids = append(ids, e.Allocation)
		}
	}
	return cli.Distinct(ids)
}

// eventLines prints events as they come: the widths of the columns are fixed.
type eventLines struct {
	w io.Writer
	cli.Terminal
	// date is that of the last event; a terminal shows the times of its day.
	date string
}

func (l *eventLines) heading() error {
	heading := []string{"TIME", "EVENT", "ALLOCATION", "NETWORK", "CALLER", "TOOK"}
	if l.Columns == 0 {
		heading = append(heading, "REMARK")
	}
	return l.row(cli.NewTable(heading...)[0])
}

// widths of the columns are 80 together on a terminal.
func (l *eventLines) widths() []int {
	if l.Columns == 0 {
		return []int{20, 14, 36, 16, 16, 6, 0}
	}
	return []int{8, 14, 12, 14, 16, 6}
}

func (l *eventLines) print(e event.Event) error {
	if err := l.newDate(e.Time.Local().Format(time.DateOnly)); err != nil {
		return err
	}
	if err := l.row(l.cells(e)); err != nil || l.Columns == 0 {
		return err
	}
	return l.remark(cli.Printable(remarkOf(e)))
}

func (l *eventLines) cells(e event.Event) []cli.Cell {
	texts := []string{e.Time.UTC().Format(time.RFC3339), e.Name(), cli.OrDash(e.Allocation), cli.OrDash(networksOf(e)), e.Caller, took(e.Took()), remarkOf(e)}
	if l.Columns > 0 {
		texts = texts[:len(texts)-1]
		texts[0] = e.Time.Local().Format(time.TimeOnly)
		if state.IsNomadID(e.Allocation) {
			texts[2] = e.Allocation[:shortID]
		}
	}
	row := make([]cli.Cell, len(texts))
	for i, s := range texts {
		row[i] = cli.Text(s)
		if l.Columns > 0 {
			row[i].Lines = cli.Wrap(cli.Printable(s), l.widths()[i])
		}
	}
	row[1].Colour = eventColour(e)
	return row
}

func (l *eventLines) row(cells []cli.Cell) error {
	t := cli.Table{cells}
	widths := l.widths()
	for i, width := range t.Widths() {
		widths[i] = max(widths[i], width)
	}
	return t.PrintColumns(l.w, widths, l.Colours)
}

// newDate prints a date that is another than that of the last event, on a terminal.
func (l *eventLines) newDate(date string) error {
	if l.Columns == 0 || date == l.date {
		return nil
	}
	l.date = date
	_, err := fmt.Fprintln(l.w, date)
	return err
}

func (l *eventLines) remark(s string) error {
	if s == "" {
		return nil
	}
	const indent = "         "
	for _, line := range cli.Wrap(s, max(l.Columns-len(indent), 20)) {
		if _, err := fmt.Fprintln(l.w, indent+line); err != nil {
			return err
		}
	}
	return nil
}

// remarkOf is why an operation failed, else what it repaired, and who had removed it.
func remarkOf(e event.Event) string {
	remark := cmp.Or(e.Error, strings.Join(e.Missing, "; "))
	if e.Operation == event.OpPool {
		remark = strings.TrimSuffix(e.Reason+": "+remark, ": ")
	}
	for _, r := range e.RemovedBy {
		remark += "; rules of its chains removed by " + r.String()
	}
	return remark
}

func eventColour(e event.Event) cli.Colour {
	switch {
	case e.Outcome == "done" && e.Operation == "attach":
		return cli.Green
	case e.Outcome == "done":
		return ""
	case e.Operation == "retry":
		return cli.Yellow
	}
	return cli.Red
}

// networksOf names the networks of an event, with the interface of an attachment, or its pool.
func networksOf(e event.Event) string {
	if e.Pool != "" {
		return "pool " + e.Pool
	}
	s := strings.Join(e.Networks, ",")
	if e.Interface != "" {
		s += " " + e.Interface
	}
	return s
}

// took prints a duration in at most 6 characters.
func took(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return fmt.Sprintf("%dm", int(d.Minutes()))
}
