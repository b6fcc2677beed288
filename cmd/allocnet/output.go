// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/termtext"
	"github.com/allocnet/allocnet/state"
)

// allocationJSON is an allocation as --json prints it.
type allocationJSON struct {
	*hook.Allocation
	// NetworkStatus is the same in the schema of the network plumbing working
	// group.
	NetworkStatus []hook.NetworkStatus `json:"networkStatus"`
}

func printJSON(w io.Writer, value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := io.WriteString(w, escapeJSON(text.String()))
	return err
}

// output prints a value as JSON with --json, else for people.
func (s *settings) output(w io.Writer, value any, people func(w io.Writer, t terminal) error) error {
	if s.json {
		return printJSON(w, value)
	}
	return people(w, terminalOf(w))
}

// errorText is the text of an error in JSON; empty for none.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// escapeJSON escapes what a terminal could execute, or show as something else: JSON requires it
// only of what comes before the space. Outside of strings there is none.
func escapeJSON(text string) string {
	if strings.IndexFunc(text, hidden) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if !hidden(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			_, _ = fmt.Fprintf(&b, `\u%04x`, unit) // a Builder does not fail
		}
	}
	return b.String()
}

func hidden(r rune) bool { return r != '\n' && termtext.Unprintable(r) }

// printAllocations prints a line for each attachment, the DNS of a single allocation, then
// the errors.
func printAllocations(w io.Writer, t terminal, allocations []*hook.Allocation, short map[string]string) error {
	if t.columns == 0 {
		short = nil
	}
	if err := allocationTable(t, allocations, short).print(w, t.colours); err != nil {
		return err
	}
	found := remarks(allocations, short)
	if len(allocations) == 1 {
		found = append(describeDNS(allocations[0]), found...)
	}
	return printLines(w, found...)
}

// describeDNS returns a line with the selected DNS of an allocation that has any.
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

// remarks are the errors of attachments and records.
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
func allocationTable(t terminal, allocations []*hook.Allocation, short map[string]string) table {
	full := fullTable(allocations, short)
	if t.columns == 0 || full.width() <= t.columns {
		return full
	}
	var narrow table
	for _, row := range full {
		narrow = append(narrow, slices.Delete(slices.Clone(row), macColumn, macColumn+1))
	}
	if narrow.width() <= t.columns {
		return narrow
	}
	return stackedTable(allocations, short)
}

// macColumn is that of fullTable.
const macColumn = 4

func fullTable(allocations []*hook.Allocation, short map[string]string) table {
	t := newTable("ALLOCATION", "INTERFACE", "NETWORK", "ADDRESSES", "MAC", "PORTS", "PHASE", "AGE")
	for _, a := range allocations {
		for _, n := range a.Attachments {
			t = append(t, []cell{
				text(cmp.Or(short[a.ID], a.ID)), text(n.Interface), text(n.Network), text(orDash(strings.Join(texts(n.Addresses), ","))),
				text(orDash(n.MAC)), text(orDash(strings.Join(texts(n.Ports), ","))), phaseCell(n), text(age(time.Since(n.Created))),
			})
		}
	}
	return t
}

// stackedTable has each address and each port on a line of its own.
func stackedTable(allocations []*hook.Allocation, short map[string]string) table {
	t := newTable("ALLOCATION", "INTERFACE", "NETWORK", "ADDRESSES, PORTS", "PHASE", "AGE")
	for _, a := range allocations {
		for _, n := range a.Attachments {
			stack := append(texts(n.Addresses), texts(n.Ports)...)
			if len(stack) == 0 {
				stack = []string{"-"}
			}
			t = append(t, []cell{
				text(cmp.Or(short[a.ID], a.ID)), text(n.Interface), text(n.Network), coloured("", stack...), phaseCell(n), text(age(time.Since(n.Created))),
			})
		}
	}
	return t
}

func phaseCell(a hook.Attachment) cell {
	colours := map[state.Phase]colour{state.Adding: yellow, state.Attached: green, hook.Reattaching: red, state.Deleting: yellow, state.Pending: red, hook.Missing: red}
	text := string(a.Phase)
	if a.Missing != "" {
		text += ": " + a.Missing
	}
	return cell{[]string{text}, colours[a.Phase]}
}

func texts[T fmt.Stringer](items []T) []string {
	list := make([]string, len(items))
	for i, item := range items {
		list[i] = item.String()
	}
	return list
}

// age prints a duration in its largest unit. It is never negative, even if the clock
// was set back.
func age(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
