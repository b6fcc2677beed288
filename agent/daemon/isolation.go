// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/agent/denied"
	"github.com/allocnet/allocnet/cniconf/watch"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// isolated is an engine that keeps attachments apart.
type isolated interface{ Isolation() hook.Isolation }

// isolator has the host keep attachments apart as files have it.
type isolator interface {
	Refresh(ctx context.Context) error
}

// refresher has rules of isolation, and levels of networks, hold as soon as their files change.
type refresher struct {
	isolation isolator
	// dirs have the networks.
	dirs []string
	log  hclog.Logger
}

// newRefresher returns one; nil for a hook that attaches nothing.
func newRefresher(engine agent.Engine, confDirs []string, log hclog.Logger) *refresher {
	e, ok := engine.(isolated)
	if !ok {
		return nil
	}
	return &refresher{e.Isolation(), confDirs, log}
}

// newDenied returns what keeps the flows that isolation denies; nil for a hook that attaches nothing.
func newDenied(engine agent.Engine, log hclog.Logger) *denied.Log {
	e, ok := engine.(isolated)
	if !ok {
		return nil
	}
	return denied.New(denied.Config{Listen: filter.Listen, Ends: e.Isolation().Ends, Logger: log})
}

// quiet is how long files have to stay as they are: a change shall hold soon, and to follow twice is as right as once.
const quiet = 50 * time.Millisecond

// run refreshes isolation at its start, and when files change. A mistake is logged once; repairs at an interval do the same
// where changes are not heard of.
func (r *refresher) run(ctx context.Context) {
	deaf := func(err error) {
		r.log.Warn("changes of isolation hold after the next repair, as they are not heard of", "error", err)
	}
	mistake := ""
	watch.Follow(ctx, quiet, append([]string{filepath.Dir(isolation.DefaultFile)}, r.dirs...), deaf, func() { mistake = r.refresh(ctx, mistake) })
}

// refresh refreshes isolation, and returns the mistake that keeps it from that; empty for none.
func (r *refresher) refresh(ctx context.Context, before string) (mistake string) {
	err := r.isolation.Refresh(ctx)
	switch {
	case ctx.Err() != nil:
		return before
	case err == nil && before != "":
		r.log.Info("isolation is as the rules and the networks have it")
	case err != nil && err.Error() != before:
		r.log.Error("the isolation that was in force stays", "error", err)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
