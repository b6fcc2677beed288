// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"time"

	"github.com/allocnet/allocnet/hook"
)

const (
	// promptRepairs of an allocation are made without a pause: an operator may reload rules
	// several times.
	promptRepairs = 5
	// firstPause is that after the last of them, and each further one is twice as long, up to
	// longestPause.
	firstPause   = time.Second
	longestPause = 5 * time.Minute
	// quiet is how long nothing may be missing until a series ends, beside the pause itself.
	quiet = time.Minute
)

// series is that of the repairs of one allocation: something keeps removing what is repaired, or
// the repairs fail.
type series struct {
	// count is the number of repairs, and last when the last one ended.
	count int
	last  time.Time
	// steps is the number of pauses, each of them longer than the one before.
	steps int
	// removers are the processes that were last known to have removed what was restored.
	removers []hook.Remover
}

// repaired counts a repair. One that has failed is followed by a pause, also if it is the first.
func (s *series) repaired(now time.Time, failed bool) {
	if now.After(s.end()) {
		*s = series{}
	}
	s.count++
	s.last = now
	if failed || s.count >= promptRepairs {
		s.steps++
	}
}

// pause is the time between the last repair and the next one.
func (s *series) pause() time.Duration {
	if s.steps == 0 {
		return 0
	}
	return min(firstPause<<min(s.steps-1, 16), longestPause)
}

// due is when the allocation may be repaired again.
func (s *series) due() time.Time { return s.last.Add(s.pause()) }

// end is when the series is over, if nothing is missing until then.
func (s *series) end() time.Time { return s.due().Add(quiet) }
