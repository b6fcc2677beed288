// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/texts"
	"github.com/allocnet/allocnet/state"
)

type allocationJSON struct {
	*hook.Allocation
	// NetworkStatus is the same in the schema of the network plumbing working
	// group.
	NetworkStatus []hook.NetworkStatus `json:"networkStatus"`
}

// printAllocations prints a line for each attachment, the DNS of a single allocation, then
// the errors.
func printAllocations(w io.Writer, t cli.Terminal, allocations []*hook.Allocation, short map[string]string) error {
	if t.Columns == 0 {
		short = nil
	}
	if err := allocationTable(t, allocations, short).Print(w, t.Colours); err != nil {
		return err
	}
	found := remarks(allocations, short)
	if len(allocations) == 1 {
		found = slices.Concat(describeDNS(allocations[0]), describeDenied(allocations[0]), found)
	}
	return cli.PrintLines(w, found...)
}

func describeDNS(a *hook.Allocation) []string {
	var parts []string
	for _, setting := range []struct {
		name   string
		values []string
	}{{"servers", a.DNS.Servers}, {"search", a.DNS.Searches}, {"options", a.DNS.Options}} {
		if len(setting.values) > 0 {
			parts = append(parts, setting.name+" "+strings.Join(setting.values, " "))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("DNS (%s): %s", cmp.Or(a.DNSSelection, hook.PrimaryDNS), strings.Join(parts, "; "))}
}

// describeDenied has a line for each attachment of which isolation has dropped something.
func describeDenied(a *hook.Allocation) (lines []string) {
	for _, n := range a.Attachments {
		if n.Denied != nil && n.Denied.String() != "" {
			lines = append(lines, fmt.Sprintf("%s: %s", n.Interface, n.Denied))
		}
	}
	return lines
}

func remarks(allocations []*hook.Allocation, short map[string]string) []string {
	var found []string
	for _, a := range allocations {
		id := cmp.Or(short[a.ID], a.ID)
		for _, n := range a.Attachments {
			if n.Error != "" {
				found = append(found, fmt.Sprintf("%s %s: teardown failed, attempt %d: %s", id, n.Interface, n.Attempts, n.Error))
			}
		}
		for _, damaged := range a.Damaged {
			found = append(found, fmt.Sprintf("%s: damaged record %s", id, damaged))
		}
	}
	return found
}

// allocationTable returns all that is known for a pipe. For a terminal it has short IDs,
// and as much as fits: without the MACs, else also with one address or port on a line.
func allocationTable(t cli.Terminal, allocations []*hook.Allocation, short map[string]string) cli.Table {
	full := fullTable(allocations, short)
	if t.Columns == 0 || full.Width() <= t.Columns {
		return full
	}
	var narrow cli.Table
	for _, row := range full {
		narrow = append(narrow, slices.Delete(slices.Clone(row), macColumn, macColumn+1))
	}
	if narrow.Width() <= t.Columns {
		return narrow
	}
	return stackedTable(allocations, short)
}

const macColumn = 4

func fullTable(allocations []*hook.Allocation, short map[string]string) cli.Table {
	t := cli.NewTable("ALLOCATION", "INTERFACE", "NETWORK", "ADDRESSES", "MAC", "PORTS", "PHASE", "AGE")
	for _, a := range allocations {
		for _, n := range a.Attachments {
			t = append(t, []cli.Cell{
				cli.Text(cmp.Or(short[a.ID], a.ID)), cli.Text(n.Interface), cli.Text(n.Network), cli.Text(cli.OrDash(texts.Join(n.Addresses, ","))),
				cli.Text(cli.OrDash(n.MAC)), cli.Text(cli.OrDash(texts.Join(allocation.Ranges(n.Ports), ","))), phaseCell(n), cli.Text(cli.Age(time.Since(n.Created))),
			})
		}
	}
	return t
}

// stackedTable has each address and each port on a line of its own.
func stackedTable(allocations []*hook.Allocation, short map[string]string) cli.Table {
	t := cli.NewTable("ALLOCATION", "INTERFACE", "NETWORK", "ADDRESSES, PORTS", "PHASE", "AGE")
	for _, a := range allocations {
		for _, n := range a.Attachments {
			stack := append(texts.Of(n.Addresses), texts.Of(allocation.Ranges(n.Ports))...)
			if len(stack) == 0 {
				stack = []string{"-"}
			}
			t = append(t, []cli.Cell{
				cli.Text(cmp.Or(short[a.ID], a.ID)), cli.Text(n.Interface), cli.Text(n.Network), cli.Coloured("", stack...), phaseCell(n), cli.Text(cli.Age(time.Since(n.Created))),
			})
		}
	}
	return t
}

func phaseCell(a hook.Attachment) cli.Cell {
	colours := map[state.Phase]cli.Colour{state.Adding: cli.Yellow, state.Attached: cli.Green, hook.Reattaching: cli.Red, state.Deleting: cli.Yellow, state.Pending: cli.Red, hook.Missing: cli.Red}
	text := string(a.Phase)
	if a.Missing != "" {
		text += ": " + a.Missing
	}
	return cli.Coloured(colours[a.Phase], text)
}
