// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"path/filepath"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/agent/denied"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/cniconf/watch"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// isolator has the host keep attachments apart as files have it.
type isolator interface {
	RefreshIsolation(ctx context.Context) error
}

// newIsolation returns the task that has rules of isolation, and levels of networks, hold as soon as their files change; nil for a hook
// that attaches nothing.
func (d *Daemon) newIsolation(engine agent.Engine) func(context.Context) {
	i, ok := engine.(isolator)
	if !ok {
		return nil
	}
	return func(ctx context.Context) { d.keepIsolation(ctx, i) }
}

// ender knows where the packets of attachments pass the host.
type ender interface {
	Ends(ctx context.Context) ([]hook.HostEnd, error)
}

// newDenied returns what keeps the flows that isolation denies; nil for a hook that attaches nothing.
func (d *Daemon) newDenied(engine agent.Engine) *denied.Log {
	e, ok := engine.(ender)
	if !ok {
		return nil
	}
	return denied.New(denied.Config{Listen: filter.Listen, Ends: e.Ends, Logger: d.log})
}

// keepIsolation refreshes isolation at its start, and when files change. A mistake is logged once; repairs at an interval do the same
// where changes are not heard of.
func (d *Daemon) keepIsolation(ctx context.Context, i isolator) {
	dirs := d.config.ConfDirs
	if len(dirs) == 0 {
		dirs = []string{cniconf.DefaultDir}
	}
	deaf := func(err error) {
		d.log.Warn("changes of isolation hold after the next repair, as they are not heard of", "error", err)
	}
	mistake := ""
	watch.Follow(ctx, append([]string{filepath.Dir(isolation.DefaultFile)}, dirs...), deaf, func() { mistake = d.refreshIsolation(ctx, i, mistake) })
}

// refreshIsolation refreshes isolation, and returns the mistake that keeps it from that; empty for none.
func (d *Daemon) refreshIsolation(ctx context.Context, i isolator, before string) (mistake string) {
	err := i.RefreshIsolation(ctx)
	switch {
	case ctx.Err() != nil:
		return before
	case err == nil && before != "":
		d.log.Info("isolation is as the rules and the networks have it")
	case err != nil && err.Error() != before:
		d.log.Error("the isolation that was in force stays", "error", err)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
