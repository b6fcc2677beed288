// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import "fmt"

// traffic is what isolation costs packets.
func traffic(r results) string {
	const part = "IsolationTraffic"
	var rows [][]string
	for _, path := range []struct{ name, text string }{
		{"outside", "to what is outside of the host"}, {"networks", "between two networks"}, {"bridge", "on a bridge, level `network`"}, {"apart", "on a bridge, level `strict`"},
	} {
		for _, load := range []struct{ name, text string }{{"bulk", "throughput"}, {"packets", "packets of 64 bytes"}, {"exchange", "exchanges"}} {
			name := path.name + "-" + load.name
			row := []string{load.text + " " + path.text}
			for _, compared := range []string{"control", "0", "100", "10000"} {
				unit := fmt.Sprintf("%s-%s/none", name, compared)
				text := r.text("%.3f", part, unit)
				if _, known := r.get(part, unit); known {
					text += fmt.Sprintf(" (%s to %s)", r.text("%.2f", part, unit+"-low"), r.text("%.2f", part, unit+"-high"))
				}
				row = append(row, text)
			}
			rows = append(rows, row)
		}
	}
	return table([]string{"with isolation, to the same without", "control", "0 rules", "100 rules", "10,000 rules"}, rows) + "\n" + r.measured(part)
}

// isolation is what rules and levels cost an attachment, and how long it is until a change holds.
func isolation(r results) string {
	var attach [][]string
	for _, when := range []struct{ name, text string }{{"-rest", "at rest"}, {"-busy", "right after another"}} {
		for _, w := range ways {
			row := []string{w.text + ", " + when.text}
			for _, unit := range []string{"-known-add/none", "-new-add/none", "-known-del/none"} {
				row = append(row, r.text("%.2f", "Isolation/attach", w.name+when.name+unit))
			}
			attach = append(attach, row)
		}
	}
	return table([]string{"one more attachment with 10,000 rules, to one without isolation", "attach, of a job that is there", "attach, the first of its job", "detach"}, attach) + "\n" +
		table([]string{"until a change of the file holds, s", "one rule of 10,000", "all 10,000"}, [][]string{{"with the agent", seconds2(r, "one-ms"), seconds2(r, "all-ms")}}) + "\n" +
		r.measured("Isolation")
}

// seconds2 is a time of changes, which are short.
func seconds2(r results, unit string) string {
	if value, known := r.get("Isolation/change", unit); known {
		return fmt.Sprintf("%.2f", value/1000)
	}
	return "-"
}
