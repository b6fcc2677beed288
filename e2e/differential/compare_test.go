// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/inprocess"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// stage is what a step gave, and the state after it.
type stage struct {
	step     string
	outcomes outcomes
	lines    []string
}

// notInProcess is what a chain says about plugins that it does not have.
const notInProcess = "is not executed in process"

// supported returns why networks are not executed in process.
func supported(c configuration) error {
	attached, err := attachments(c)
	if err != nil {
		return err
	}
	for _, a := range attached {
		if err := inprocess.Supports(a.list, []string{sandbox.PluginDir()}); err != nil {
			return fmt.Errorf("%s: %w", notInProcess, err)
		}
	}
	return nil
}

// assignment is which executor executes a verb.
type assignment struct {
	name string
	of   func(verb string) executor
}

// reference is what the others are compared with.
var reference = assignment{"plugins", func(string) executor { return plugins }}

// assignments are compared with the plugins.
var assignments = []assignment{
	{"in process", func(string) executor { return inProcess }},
	{"ADD in process", func(verb string) executor { return either(verb == add, inProcess, plugins) }},
	{"ADD by plugins", func(verb string) executor { return either(verb == add, plugins, inProcess) }},
}

// isApart is whether a configuration is run for attachments that are kept apart: each second one is.
func (c configuration) isApart() bool {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(c.Name)) // it has no error
	return sum.Sum32()%2 == 0
}

func either(first bool, a, b executor) executor {
	if first {
		return a
	}
	return b
}

// compare returns how runs in process, and crosswise, differ from that of the plugins.
func (h *host) compare(c configuration) ([]string, error) {
	if err := supported(c); err != nil {
		return nil, err
	}
	want, err := h.run(c, reference)
	if err != nil {
		return nil, err
	}
	var differences []string
	for i, a := range assignments {
		if i == 0 && c.isApart() {
			a = assignment{a.name + ", apart", func(string) executor { return apart }}
		}
		if i > 0 && !attached(want) {
			break // what ADD left is the same, or less
		}
		got, err := h.run(c, a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.name, err)
		}
		if d := firstDifference(want, got); d != "" {
			differences = append(differences, a.name+", "+d)
		}
	}
	return differences, nil
}

// attached tells whether an ADD has succeeded.
func attached(stages []stage) bool {
	return slices.ContainsFunc(stages, func(s stage) bool { return s.step == add && slices.ContainsFunc(s.outcomes, succeeded) })
}

// run runs the steps on a clean host.
func (h *host) run(c configuration, a assignment) ([]stage, error) {
	if err := h.reset(); err != nil {
		return nil, err
	}
	h.snapshots.names.configured = strings.ToLower(fmt.Sprint(c))
	for _, command := range c.Prepare {
		if err := run(command); err != nil {
			return nil, err
		}
	}
	networks, err := attachments(c)
	if err != nil {
		return nil, err
	}
	var stages []stage
	unsettled := settling{}
	for i, step := range c.Steps {
		s := stage{step: step}
		if s.outcomes, err = h.step(step, a, networks); err != nil {
			return nil, err
		}
		if c.Sabotage != "" && i == c.SabotageAfter && a.name != reference.name {
			if err := run(c.Sabotage); err != nil {
				return nil, err
			}
		}
		if s.lines, err = h.snapshots.take(); err != nil {
			return nil, err
		}
		s.lines = withoutDeviations(c.Prepare, s.lines)
		if step == add {
			unsettled.note(c.Networks, s.outcomes)
		}
		unsettled.hide(s.lines)
		for i, outcome := range s.outcomes {
			s.outcomes[i] = h.snapshots.names.replace(outcome)
		}
		stages = append(stages, s)
	}
	return stages, nil
}

func (h *host) step(step string, a assignment, networks []attachment) (outcomes, error) {
	switch {
	case isVerb(step):
		return a.of(step)(step, networks), nil
	case step == vanish:
		return nil, vanishNamespace()
	}
	return nil, run(step)
}

// mostLines is how many lines of a difference are shown: a link that is missing has a hundred.
const mostLines = 40

// firstDifference describes the first stage that differs; empty if none does. There may be no
// leftovers of the plugins.
func firstDifference(want, got []stage) string {
	left, before := &leftovers{}, []string(nil)
	for i := range want {
		lines := want[i].outcomes.difference(want[i].step, got[i].outcomes)
		lines = append(lines, left.difference(before, want[i], got[i].lines)...)
		before = want[i].lines
		lines = shorten(lines)
		if extra := len(lines) - mostLines; extra > 0 {
			lines = append(lines[:mostLines], fmt.Sprintf("and %d more", extra))
		}
		if len(lines) > 0 {
			return fmt.Sprintf("step %d, %s (-plugins +got):\n%s", i+1, want[i].step, strings.Join(lines, "\n"))
		}
	}
	return ""
}

// cachedResult begins the lines of results that libcni keeps for DEL.
const cachedResult = "file " + cacheDir + "/results"

// difference returns the lines that only one of them has.
func difference(want, got []string, cleaner bool) []string {
	if cleaner {
		got = aligned(want, got)
	}
	count := map[string]int{}
	for _, line := range got {
		count[line]++
	}
	for _, line := range want {
		count[line]--
	}
	var lines []string
	for _, line := range slices.Sorted(maps.Keys(count)) {
		switch n := count[line]; {
		case n > 0 && cleaner && strings.HasPrefix(line, cachedResult):
			// Rules are made after the chain has succeeded: its result is cached already.
		case n > 0:
			lines = append(lines, "+"+line)
		case n < 0 && !cleaner:
			lines = append(lines, "-"+line)
		}
	}
	return lines
}

// whole matches the line of a link that it has in any case.
var whole = regexp.MustCompile(`^([-+](?:inside )?link [^ ]+ )peer=`)

// shorten replaces the lines of each link that is wholly missing or too much by one.
func shorten(lines []string) []string {
	for _, line := range slices.Clone(lines) {
		m := whole.FindStringSubmatch(line)
		if m == nil || slices.ContainsFunc(lines, func(other string) bool { return other[0] != m[1][0] && strings.HasPrefix(other[1:], m[1][1:]) }) {
			continue
		}
		lines = slices.DeleteFunc(lines, func(other string) bool { return other != line && strings.HasPrefix(other, m[1]) })
	}
	return lines
}
