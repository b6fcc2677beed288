// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import "fmt"

// isolation is what rules and levels cost: of traffic, of an attachment, and until a change holds.
func isolation(r results) string {
	var traffic, attach [][]string
	for _, path := range []struct{ name, text string }{{"outside", "to what is outside of the host"}, {"between", "between two allocations, which a rule allows"}} {
		for _, what := range []string{"throughput", "latency"} {
			row := []string{what + " " + path.text}
			for _, rules := range []int{0, 100, 10000} {
				row = append(row, r.text("%.2f", "Isolation/traffic", fmt.Sprintf("%s-%d-%s/none", path.name, rules, what)))
			}
			traffic = append(traffic, row)
		}
	}
	for _, w := range ways {
		row := []string{w.text}
		for _, unit := range []string{"-known-add/none", "-new-add/none", "-known-del/none"} {
			row = append(row, r.text("%.2f", "Isolation/attach", w.name+unit))
		}
		attach = append(attach, row)
	}
	return table([]string{"to a host without isolation", "0 rules", "100 rules", "10,000 rules"}, traffic) + "\n" +
		table([]string{"one more attachment with 10,000 rules, to one without isolation", "attach, of a job that is there", "attach, the first of its job", "detach"}, attach) + "\n" +
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
