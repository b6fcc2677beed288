// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package traffic

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/texts"
	"github.com/allocnet/allocnet/isolation"
)

const showLong = `Show for each attachment the isolation of its network, and which rules select it; with an
ID, what reaches each attachment of the allocation and what it reaches, by which rule. Of a
flow the first line that fits decides. An attachment whose job narrows what reaches it, or
what it reaches, is "narrowed". The first characters of an ID are enough if no other
ID begins with them.

A rule that selects no attachment of this host, and none that is known on another one, is
listed: its names may be mistyped, or of allocations that do not run. Networks whose packets
do not pass the host, such as macvlan, have no isolation but "inside". What other filters of the host drop
is not examined, but by "allocnet policy test".`

// attachmentTraffic is an attachment with what passes.
type attachmentTraffic struct {
	Allocation string `json:"allocation"`
	Interface  string `json:"interface"`
	Network    string `json:"network"`
	// Isolation is empty for an attachment whose packets do not pass the host.
	Isolation isolation.Level `json:"isolation,omitempty"`
	// Inside is whether it is kept apart in its namespace, against tasks that may not change that.
	Inside bool `json:"inside,omitempty"`
	// Ingress and Egress are what the job leaves of the traffic. Empty: all.
	Ingress string `json:"ingress,omitempty"`
	Egress  string `json:"egress,omitempty"`
	// Rules are the names of those that select it.
	Rules []string `json:"rules,omitempty"`
	// ReachedBy and Reaches are what passes, and what does not: only of one allocation.
	ReachedBy []isolation.Passage `json:"reachedBy,omitempty"`
	Reaches   []isolation.Passage `json:"reaches,omitempty"`
}

type trafficJSON struct {
	// File has the rules.
	File        string              `json:"file"`
	Attachments []attachmentTraffic `json:"attachments"`
	// Unused are the names of rules that select no attachment of this host, and none that is known on another one.
	Unused []string `json:"unused,omitempty"`
}

type showFlags struct {
	cli.Display
	rules rulesFlag
}

func newShow(s *cli.Settings, recordedIDs cli.Complete) *cobra.Command {
	var f showFlags
	cmd := &cobra.Command{
		Use:   "show [ID]",
		Short: "Show what reaches allocations and what they reach, by which rule",
		Long:  showLong,
		Example: `  allocnet policy show
  allocnet policy show web-1
  allocnet policy show web-1 --json`,
		Args:              cli.WantArguments(0, 1, "one ID or none"),
		ValidArgsFunction: s.CompleteFirst(recordedIDs),
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args) },
	}
	f.Register(cmd, "IDs")
	f.rules.register(cmd)
	return cmd
}

func (f *showFlags) run(cmd *cobra.Command, s *cli.Settings, args []string) error {
	return f.Show(cmd, s.JSON, func(context.Context) (cli.View, error) {
		t, engine, err := readTraffic(cmd, s, &f.rules)
		if engine == nil || err != nil && t.members == nil { // that would look as if nothing were isolated
			return cli.View{}, err
		}
		if len(args) == 0 {
			return t.view(t.allocations, false), err
		}
		id, errID := engine.Resolve(args[0])
		if errID != nil {
			return cli.View{}, errID
		}
		one := slices.DeleteFunc(slices.Clone(t.allocations), func(a *hook.Allocation) bool { return a.ID != id })
		return t.view(one, true), err
	})
}

func (t *traffic) view(shown []*hook.Allocation, inFull bool) cli.View {
	all := trafficJSON{File: t.rules.File, Attachments: []attachmentTraffic{}, Unused: t.unused()}
	v := cli.View{}
	for _, a := range shown {
		v.Names = append(v.Names, a.ID)
		for _, n := range a.Attachments {
			all.Attachments = append(all.Attachments, t.of(a.ID, n, inFull))
		}
	}
	v.JSON = all
	v.Table = func(w io.Writer, on cli.Terminal) error {
		if inFull {
			return printTraffic(w, on, all)
		}
		return printIsolation(w, on, all)
	}
	return v
}

func (t *traffic) of(id string, n hook.Attachment, inFull bool) attachmentTraffic {
	one := attachmentTraffic{Allocation: id, Interface: n.Interface, Network: n.Network}
	m := t.member(id, n)
	if m == nil {
		return one
	}
	one.Isolation, one.Inside, one.Rules = m.Level, m.Inside, t.rules.Selecting(*m)
	if m.Ingress != nil {
		one.Ingress = m.Ingress.String()
	}
	if m.Egress != nil {
		one.Egress = m.Egress.String()
	}
	if inFull {
		one.ReachedBy, one.Reaches = isolation.ReachedBy(t.rules, *m), isolation.Reaches(t.rules, *m)
		if !m.Inside {
			one.ReachedBy = withPublished(one.ReachedBy, *m, n.Ports)
		}
	}
	return one
}

// withPublished puts published ports where they count: after what the job leaves, and the rules of the file.
func withPublished(passages []isolation.Passage, m isolation.Member, ports []hook.PortMapping) []isolation.Passage {
	if len(ports) == 0 {
		return passages
	}
	at := 0
	for m.Ingress != nil && at == 0 || passages[at].Line > 0 {
		at++
	}
	return slices.Insert(passages, at, isolation.Passage{Allowed: true, Peer: "everything", Ports: texts.Of(ports), By: "published ports"})
}

// unused returns the names of rules that select no attachment.
func (t *traffic) unused() []string {
	names := t.rules.Names()
	for _, m := range t.members {
		selecting := t.rules.Selecting(m)
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(selecting, name) })
	}
	return names
}

// isolation is how it is kept apart, in words.
func (a attachmentTraffic) isolation() string {
	text := string(a.Isolation)
	if a.Inside {
		text += ", inside"
	}
	if a.Ingress+a.Egress != "" {
		text += ", narrowed"
	}
	return text
}

func printIsolation(w io.Writer, on cli.Terminal, all trafficJSON) error {
	table := cli.NewTable("ALLOCATION", "INTERFACE", "NETWORK", "ISOLATION", "RULES")
	for _, a := range all.Attachments {
		table.Add(a.Allocation, a.Interface, a.Network, cli.OrDash(a.isolation()), cli.OrDash(strings.Join(a.Rules, ", ")))
	}
	if err := table.Print(w, on.Colours); err != nil {
		return err
	}
	var remarks []string
	for _, name := range all.Unused {
		remarks = append(remarks, fmt.Sprintf("rule %q of %s selects no attachment that is known", name, all.File))
	}
	return cli.PrintLines(w, remarks...)
}

func printTraffic(w io.Writer, on cli.Terminal, all trafficJSON) error {
	for i, a := range all.Attachments {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := a.print(w, on, all.File); err != nil {
			return err
		}
	}
	return nil
}

func (a attachmentTraffic) print(w io.Writer, on cli.Terminal, file string) error {
	if a.Isolation == "" {
		return cli.PrintLines(w, fmt.Sprintf("%s of %s, network %s: its packets do not pass this host, or it is not attached", a.Interface, a.Allocation, a.Network))
	}
	if err := cli.PrintLines(w, fmt.Sprintf("%s of %s, network %s, isolation %s", a.Interface, a.Allocation, a.Network, a.isolation())); err != nil {
		return err
	}
	table := cli.NewTable("", "", "PEER", "PORTS", "BY")
	table = append(table, rowsOf("reached by", a.ReachedBy, file)...)
	table = append(table, rowsOf("reaches", a.Reaches, file)...)
	return table.Print(w, on.Colours)
}

func rowsOf(direction string, passages []isolation.Passage, file string) cli.Table {
	var rows cli.Table
	for _, p := range passages {
		by := p.By
		if p.Line > 0 {
			by = fmt.Sprintf("%s (%s:%d)", p.By, file, p.Line)
		}
		rows = append(rows, []cli.Cell{cli.Text(direction), verdict(p.Allowed), cli.Text(p.Peer), cli.Text(cli.OrDash(strings.Join(p.Ports, " "))), cli.Text(by)})
	}
	return rows
}
