// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// sections are what the page has of the rows, by the names in its markers.
var sections = map[string]func(results) string{
	"peers":    func(r results) string { return peers(r, "nftables") + "\n" + r.measured("Peers") },
	"iptables": func(r results) string { return peers(r, "iptables") },
	"work":     work, "growth": growth, "crowd": crowd, "isolation": isolation, "traffic": traffic, "size": size, "leaks": leaks, "pools": pools, "designs": designs, "span": span, "paths": paths,
}

// isUnmeasured tells whether a cell has no figure.
func isUnmeasured(cell string) bool { return strings.Trim(cell, "-, ;") == "" }

// measured leaves out the rows and the columns without a figure.
func measured(columns []string, rows [][]string) ([]string, [][]string) {
	rows = slices.DeleteFunc(rows, func(row []string) bool {
		return !slices.ContainsFunc(row[1:], func(c string) bool { return !isUnmeasured(c) })
	})
	for i := len(columns) - 1; i > 0; i-- {
		if slices.ContainsFunc(rows, func(row []string) bool { return !isUnmeasured(row[i]) }) {
			continue
		}
		columns = slices.Delete(slices.Clone(columns), i, i+1)
		for j := range rows {
			rows[j] = slices.Delete(rows[j], i, i+1)
		}
	}
	return columns, rows
}

// table is a table with the names of its columns, and its rows; empty if nothing of it was measured.
func table(columns []string, rows [][]string) string {
	if columns, rows = measured(columns, rows); len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	align := make([]string, len(columns))
	for i := range align {
		align[i] = "---:"
	}
	align[0] = "---"
	for _, row := range append([][]string{columns, align}, rows...) {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	return b.String()
}

// ways are those in which allocnet-cni works, by their names in the rows.
var ways = []struct{ name, text string }{{"by-agent", "with the agent"}, {"allocnet", "without"}}

// others are the programs that it is compared with.
var others = []struct{ name, text string }{
	{"netavark", "netavark"}, {"multus", "Multus"}, {"sequential", "the plugins, one after the other"}, {"parallel", "the plugins, all at once"},
}

var counts = []int{1, 3, 5}

// peers is the time of allocnet to that of others.
func peers(r results, backend string) string {
	columns := []string{"time of `allocnet-cni`, 1, 3, 5 networks, to that of"}
	for _, o := range others {
		columns = append(columns, o.text)
	}
	var rows [][]string
	for _, verb := range []string{"add", "del"} {
		for _, w := range ways {
			row := []string{map[string]string{"add": "attach, ", "del": "detach, "}[verb] + w.text}
			for _, o := range others {
				row = append(row, each(func(k int) string {
					name := fmt.Sprintf("Peers/%s/k=%d", backend, k)
					return r.ratio("%.2f", [2]string{name, w.name + "-" + verb + "-ms"}, [2]string{name, o.name + "-" + verb + "-ms"})
				}))
			}
			rows = append(rows, row)
		}
	}
	return table(columns, rows)
}

// each joins what a function has of each count of networks.
func each(of func(k int) string) string {
	var all []string
	for _, k := range counts {
		all = append(all, of(k))
	}
	return strings.Join(all, ", ")
}

// work is what attaching costs, in milliseconds.
func work(r results) string {
	var rows [][]string
	for _, program := range append(append([]struct{ name, text string }{}, ways...), others...) {
		row := []string{program.text}
		for _, unit := range []string{"-add-ms", "-del-ms", "-add-cpu-ms", "-own-add-ms"} {
			row = append(row, each(func(k int) string { return r.text("%.0f", fmt.Sprintf("Peers/nftables/k=%d", k), program.name+unit) }))
		}
		rows = append(rows, row)
	}
	return table([]string{"ms for 1, 3, 5 networks", "attach", "detach", "CPU time of attaching", "of it own"}, rows)
}

// growth is one more allocation beside others, to one on an empty host.
func growth(r results) string {
	var rows [][]string
	for _, way := range growthWays {
		row := []string{way.text}
		for _, verb := range []string{"add", "del"} {
			for _, n := range []int{100, 300, 1000} {
				row = append(row, r.text("%.1f", fmt.Sprintf("Growth/%s/others=%d", way.name, n), verb+"/first"))
			}
		}
		rows = append(rows, row)
	}
	return table([]string{"attach and detach beside others, to none", "attach, 100", "300", "1,000", "detach, 100", "300", "1,000"}, rows) + "\n" + r.measured("Growth")
}

var growthWays = []struct{ name, text string }{
	{"nftables/ipv6=off", "nftables, IPv6 off"}, {"nftables/ipv6=link-local", "nftables, link-local IPv6"},
	{"iptables/ipv6=off", "iptables, IPv6 off"}, {"iptables/ipv6=link-local", "iptables, link-local IPv6"},
}

// crowd is many allocations at once.
func crowd(r results) string {
	var rows [][]string
	for _, backend := range []string{"nftables", "iptables"} {
		for _, s := range append(append([]struct{ name, text string }{}, ways...), others[2]) {
			row := []string{backend + ", " + s.text}
			for _, verb := range []string{"add", "del"} {
				for _, c := range []string{"100/width=1", "200/width=16", "1000/width=16"} {
					row = append(row, r.text("%.0f", "AtOnce/"+backend+"/"+s.name+"/allocations="+c, verb+"s/s"))
				}
			}
			rows = append(rows, row)
		}
	}
	return table([]string{"allocations of three networks in a second", "attached, one at a time", "200, 16 at a time", "1,000", "detached, one at a time", "200, 16 at a time", "1,000"}, rows) +
		"\n" + r.measured("AtOnce")
}

// size is what is installed, and what runs.
func size(r results) string {
	return table([]string{"", ""}, [][]string{
		{"`allocnet-cni`, `allocnet-cni-engine`, `allocnet`; Multus, MB", strings.Join([]string{
			r.text("%.1f", "Footprint", "allocnet-cni-MB"), r.text("%.1f", "Footprint", "allocnet-cni-engine-MB"), r.text("%.1f", "Footprint", "allocnet-MB")}, ", ") + "; " +
			r.text("%.1f", "Footprint", "multus-MB")},
		{"the answer of `allocnet-cni` to VERSION, of Multus, ms", r.text("%.1f", "Footprint", "allocnet-cni-version-ms") + ", " + r.text("%.1f", "Footprint", "multus-version-ms")},
		{"memory of the agent at rest, with 1,000 allocations attached at once, MiB", r.text("%.0f", "Footprint", "agent-idle-MiB") + ", " +
			r.text("%.0f", "AtOnce/nftables/by-agent/allocations=1000/width=16", "agent-MiB")},
	}) + "\n" + r.measured("Footprint")
}

// leaks is garbage collection, and the first attachment of a boot.
func leaks(r results) string {
	return table([]string{"", ""}, [][]string{
		{"removing what 1,000 and 10,000 dead allocations left, s", seconds(r, "GC/leaks=1000", "gc-ms") + ", " + seconds(r, "GC/leaks=10000", "gc-ms")},
		{"time of Nomad's way of removing the masquerade alone, to that", r.text("%.0f", "GC/leaks=1000", "nomads-way/gc") + ", " + r.text("%.0f", "GC/leaks=10000", "nomads-way/gc")},
		{"the first attachment of a boot, with 500 dead allocations on record, s", seconds(r, "FirstSetupOfABoot", "first-add-ms")},
	}) + "\n" + r.measured("GC")
}

// seconds is a figure in milliseconds as seconds.
func seconds(r results, name, unit string) string {
	if value, known := r.get(name, unit); known {
		return fmt.Sprintf("%.1f", value/1000)
	}
	return "-"
}
