// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"strings"

	"github.com/allocnet/allocnet/isolation"
)

// index finds the selectors that select an attachment, among thousands. Most name a job.
type index struct {
	selectors []*isolation.Selector
	// isWanted tells which of them are looked for.
	isWanted func(*isolation.Selector) bool
	// byJob are those of one job, and others the rest; nil: all are looked at.
	byJob  map[string][]int
	others []int
}

// build prepares the index for many attachments.
func (x *index) build() {
	x.byJob = map[string][]int{}
	for i, s := range x.selectors {
		switch {
		case !x.isWanted(s):
		case s.Job != "" && !strings.Contains(s.Job, "*"):
			x.byJob[s.Job] = append(x.byJob[s.Job], i)
		default:
			x.others = append(x.others, i)
		}
	}
}

// of returns the numbers of the wanted selectors that select an attachment, in ascending order.
func (x *index) of(m *isolation.Member) []int {
	var found []int
	if x.byJob == nil {
		for i, s := range x.selectors {
			if selects(s, m) && x.isWanted(s) {
				found = append(found, i)
			}
		}
		return found
	}
	jobs, others := x.byJob[m.Job], x.others
	for len(jobs) > 0 || len(others) > 0 {
		var next int
		if len(others) == 0 || len(jobs) > 0 && jobs[0] < others[0] {
			next, jobs = jobs[0], jobs[1:]
		} else {
			next, others = others[0], others[1:]
		}
		if selects(x.selectors[next], m) {
			found = append(found, next)
		}
	}
	return found
}
