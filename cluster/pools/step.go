// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pools

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/internal/wake"
)

type step struct {
	name string
	// pause is the time between the end of one run and the next.
	pause time.Duration
	// limit bounds a run.
	limit time.Duration
	run   func(context.Context) error

	due time.Time
	// failed is the number of failures since the last success.
	failed int
}

// maxPause bounds the pause after failures, which doubles with each of them. A step with a
// longer pause keeps its own.
const maxPause = 2 * time.Minute

// repeat runs the steps, one at a time, until ctx ends. It calls report after each run.
func repeat(ctx context.Context, steps []*step, report func(name string, err error)) {
	for {
		next := slices.MinFunc(steps, func(a, b *step) int { return a.due.Compare(b.due) })
		if !wake.After(ctx, time.Until(next.due)) {
			return
		}
		err := next.once(ctx)
		if ctx.Err() != nil {
			return
		}
		report(next.name, err)
		next.schedule(err)
	}
}

// errSlow is the cause of the end of a run that reached its limit.
var errSlow = errors.New("took too long")

func (s *step) once(ctx context.Context) error {
	ctx, stop := context.WithTimeoutCause(ctx, s.limit, errSlow)
	defer stop()
	return s.run(ctx)
}

func (s *step) schedule(err error) {
	pause := s.pause
	if err == nil {
		s.failed = 0
	} else {
		s.failed = min(s.failed+1, 10)
		pause = max(s.pause, min(s.pause<<s.failed, maxPause))
	}
	s.due = time.Now().Add(spread(pause))
}

// spread returns a duration of 0.9 to 1.1 times d, so that hosts that start together do not
// ask the servers together.
func spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// failures has the steps that failed when they ran last. Each failure is logged once, until
// it is of another kind or the step succeeds.
type failures struct {
	log  hclog.Logger
	last map[string]error
}

func (f *failures) note(step string, err error) {
	before := f.last[step]
	switch {
	case err == nil && before == nil:
		return
	case err == nil:
		f.log.Info("a step succeeds again", "step", step)
		delete(f.last, step)
		return
	case before == nil || kindOf(before) != kindOf(err):
		f.log.Warn("a step failed, and is repeated", "step", step, "error", err)
	default:
		f.log.Debug("a step failed again", "step", step, "error", err)
	}
	f.last[step] = err
}
