// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"context"
	"time"

	"github.com/allocnet/allocnet/ipam"
)

// filterPause is the time between two looks for what drops packets of other hosts. To list the
// rules takes processes.
const filterPause = time.Minute

// watchFilters looks for what drops packets, and soon after a pool was added.
func (s *Span) watchFilters(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.added:
		case <-time.After(filterPause):
		}
		s.noteFiltered(ctx)
	}
}

// noteFiltered replaces what the pools have as a problem of the host's filters.
func (s *Span) noteFiltered(ctx context.Context) {
	hasPools := false
	s.each(func(*runner) { hasPools = true })
	if !hasPools {
		return
	}
	obstacles := s.config.Obstacles(ctx)
	if ctx.Err() != nil {
		return
	}
	s.each(func(r *runner) { r.noteText(Filtered, list(obstacles(r.config))) })
}

// Obstacles returns what of the host drops packets between a pool and other hosts.
type Obstacles func(*ipam.Config) []string
