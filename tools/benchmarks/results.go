// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// results are the figures of benchmarks, by the name of the benchmark.
type results map[string]*part

// part is one benchmark with its parts, of one run.
type part struct {
	// conditions are what was noted before it, such as its date.
	conditions map[string]string
	// figures are the values, by the rest of the name and the unit.
	figures map[[2]string]float64
}

// processors is what Go adds to the name of a benchmark.
var processors = regexp.MustCompile(`-[0-9]+$`)

// parse reads rows as Go prints them, each part after lines "key: value" with its conditions, of which "part" is the first.
func parse(rows string) (results, error) {
	r := results{}
	var current *part
	for line := range strings.Lines(rows) {
		key, value, isCondition := strings.Cut(strings.TrimSpace(line), ": ")
		fields := strings.Fields(line)
		switch {
		case isCondition && key == "part":
			current = &part{map[string]string{}, map[[2]string]float64{}}
			r[value] = current
		case len(fields) == 0:
		case current == nil:
			return nil, fmt.Errorf("a row before the first part: %q", line)
		case isCondition:
			current.conditions[key] = value
		default:
			if err := current.add(fields); err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
		}
	}
	return r, nil
}

// add adds a row: the name, the number of iterations, and values with their units.
func (p *part) add(fields []string) error {
	_, name, _ := strings.Cut(processors.ReplaceAllString(fields[0], ""), "/")
	for i := 2; i+1 < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return err
		}
		p.figures[[2]string{name, fields[i+1]}] = value
	}
	return nil
}

// get returns a figure; name is that of a benchmark with its part.
func (r results) get(name, unit string) (value float64, known bool) {
	top, rest, _ := strings.Cut(name, "/")
	p, known := r[top]
	if known {
		value, known = p.figures[[2]string{rest, unit}]
	}
	return value, known
}

// text is a figure in a form; "-" for one that was not measured.
func (r results) text(form, name, unit string) string {
	if value, known := r.get(name, unit); known {
		return fmt.Sprintf(form, value)
	}
	return "-"
}

// ratio is a figure to another one; "-" without both.
func (r results) ratio(form string, of, to [2]string) string {
	value, known := r.get(of[0], of[1])
	other, also := r.get(to[0], to[1])
	if known && also && other > 0 {
		return fmt.Sprintf(form, value/other)
	}
	return "-"
}

// measured tells when a part was measured, and on what.
func (r results) measured(name string) string {
	p, known := r[name]
	if !known {
		return "Not measured.\n"
	}
	text := fmt.Sprintf("Measured on %s: %s, load %s at the start", p.conditions["date"], p.conditions["machine"], p.conditions["load"])
	if with := p.conditions["with"]; with != "" {
		text += "; " + with
	}
	return text + ".\n"
}
