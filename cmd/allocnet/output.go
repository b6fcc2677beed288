// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/allocnet/allocnet/hook"
)

// allocationJSON is an allocation as --json prints it.
type allocationJSON struct {
	*hook.Allocation
	// NetworkStatus is the same in the schema of the network plumbing working
	// group.
	NetworkStatus []hook.NetworkStatus `json:"networkStatus"`
}

func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

func printAllocation(w io.Writer, a *hook.Allocation, asJSON bool) error {
	if asJSON {
		return printJSON(w, allocationJSON{a, a.NetworkStatus()})
	}
	return printTable(w, []*hook.Allocation{a})
}

// printTable prints a line for each attachment, then the errors.
func printTable(w io.Writer, allocations []*hook.Allocation) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ALLOCATION\tINTERFACE\tNETWORK\tADDRESSES\tMAC\tPORTS\tPHASE\tAGE") // Flush reports
	var remarks []string
	for _, a := range allocations {
		for _, n := range a.Attachments {
			_, _ = fmt.Fprintln(table, strings.Join([]string{
				a.ID, n.Interface, n.Network, orDash(join(n.Addresses)), orDash(n.MAC),
				orDash(ports(n.Ports)), string(n.Phase), age(time.Since(n.Created)),
			}, "\t"))
			if n.Error != "" {
				remarks = append(remarks, fmt.Sprintf("%s %s: teardown failed, attempt %d: %s", a.ID, n.Interface, n.Attempts, n.Error))
			}
		}
		for _, damaged := range a.Damaged {
			remarks = append(remarks, fmt.Sprintf("%s: damaged record %s", a.ID, damaged))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, remark := range remarks {
		if _, err := fmt.Fprintln(w, remark); err != nil {
			return err
		}
	}
	return nil
}

func join[T fmt.Stringer](items []T) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = item.String()
	}
	return strings.Join(texts, ",")
}

// ports writes mappings as HOST-IP:HOST-PORT->PORT/PROTOCOL.
func ports(mappings []hook.PortMapping) string {
	texts := make([]string, len(mappings))
	for i, m := range mappings {
		host := fmt.Sprint(m.HostPort)
		if m.HostIP != "" {
			host = m.HostIP + ":" + host
		}
		texts[i] = fmt.Sprintf("%s->%d/%s", host, m.ContainerPort, m.Protocol)
	}
	return strings.Join(texts, ",")
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
