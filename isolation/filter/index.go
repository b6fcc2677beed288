// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"slices"
	"strings"

	"github.com/allocnet/allocnet/isolation"
)

// index finds the selectors that select an attachment, among thousands. Most name a job, or a group, a network or a namespace.
type index struct {
	selectors []*isolation.Selector
	// isWanted tells which of them are looked for.
	isWanted func(*isolation.Selector) bool
	// byName are those that have one of these names, by the first, and others the rest; nil: all are looked at.
	byName map[named][]int
	others []int
}

// named is a name, and which of the names of an attachment it is.
type named struct {
	which int
	name  string
}

// build prepares the index for many attachments.
func (x *index) build() {
	x.byName = map[named][]int{}
	for i, s := range x.selectors {
		if !x.isWanted(s) {
			continue
		}
		patterns := []string{s.Job, s.Group, s.Network, s.Namespace}
		which := slices.IndexFunc(patterns, func(p string) bool { return p != "" && !strings.Contains(p, "*") })
		if which < 0 {
			x.others = append(x.others, i)
			continue
		}
		key := named{which, patterns[which]}
		x.byName[key] = append(x.byName[key], i)
	}
}

// isSelecting tells whether a selector is wanted and selects an attachment.
func (x *index) isSelecting(i int, m *isolation.Member) bool {
	return x.isWanted(x.selectors[i]) && selects(x.selectors[i], m)
}

// of returns the numbers of the wanted selectors that select an attachment, in ascending order.
func (x *index) of(m *isolation.Member) (found []int) {
	if x.byName == nil {
		for i := range x.selectors {
			if x.isSelecting(i, m) {
				found = append(found, i)
			}
		}
		return found
	}
	add := func(all []int) {
		for _, i := range all {
			if selects(x.selectors[i], m) {
				found = append(found, i)
			}
		}
	}
	add(x.others)
	for which, name := range []string{m.Job, m.Group, m.Network, m.Namespace} {
		add(x.byName[named{which, name}])
	}
	slices.Sort(found)
	return found
}
