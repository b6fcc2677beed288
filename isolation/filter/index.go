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
	// byJob are those of one job, and others the rest.
	byJob  map[string][]int
	others []int
}

// newIndex leaves out the selectors of addresses, and those that select everything unless that means all attachments.
func newIndex(selectors []*isolation.Selector, withAll bool) *index {
	x := &index{selectors: selectors, byJob: map[string][]int{}}
	for i, s := range selectors {
		switch {
		case !hasPatterns(s) && (!withAll || !selectsAll(s)):
		case s.Job != "" && !strings.Contains(s.Job, "*"):
			x.byJob[s.Job] = append(x.byJob[s.Job], i)
		default:
			x.others = append(x.others, i)
		}
	}
	return x
}

// of returns the numbers of the selectors with patterns that select an attachment, in ascending order.
func (x *index) of(m *isolation.Member) []int {
	var found []int
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
