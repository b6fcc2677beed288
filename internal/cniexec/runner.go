// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package cniexec executes CNI plugins. Runner gives each call a deadline, checks and reports
// results, over any invoke.Exec; Process is the one that starts processes.
//
// A plugin outlives a process of ours that is killed. It inherits the directory of its allocation,
// opened with a shared flock, so that the next teardown can wait for it.
//
// The version of a plugin decides nothing: those of Debian do not say theirs. Transient tells
// which failures may pass by their code, and by what the text of a reference plugin says.
package cniexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/hashicorp/go-hclog"
)

// Runner runs the plugins of one chain for one operation. It is made anew for
// each.
type Runner struct {
	// Exec runs a plugin. Required.
	invoke.Exec
	// Limit is the deadline of one call. Required.
	Limit time.Duration
	// Namespace is that of the container. Default: plugins get the path that libcni is given.
	Namespace Namespace
	// Added is called with the result of each ADD and its index in the chain,
	// before the next plugin runs. Default: results are not reported.
	Added func(index int, result []byte)

	// Deleted is called after each DEL that reports success, before the next plugin runs. With an error the
	// DEL has failed. Default: it is not called.
	Deleted func(ctx context.Context, plugin string) error

	added int
}

var _ invoke.Exec = (*Runner)(nil)

// ExecPlugin runs a plugin once. Errors are *types.Error as the plugin printed
// it, *TimeoutError, *ExecError, or the context's cause.
func (r *Runner) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	plugin, verb, limit := filepath.Base(path), Verb(environ), r.Limit
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	timeout := &TimeoutError{plugin, verb, limit}
	limited, stop := context.WithTimeoutCause(ctx, limit, timeout)
	defer stop()
	result, err := r.Namespace.call(stdin, environ, func(stdin []byte, environ []string) ([]byte, error) {
		return r.Exec.ExecPlugin(limited, path, stdin, environ)
	})
	switch {
	case err != nil && errors.Is(limited.Err(), context.DeadlineExceeded): // its own, or the operation's at the same time
		return nil, timeout
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err == nil && verb == "DEL" && r.Deleted != nil:
		return result, r.Deleted(ctx, plugin)
	case err != nil || verb != "ADD":
		return result, err
	}
	if err := checkResult(result); err != nil {
		return nil, &ExecError{plugin, verb, "", err}
	}
	if r.Added != nil {
		r.Added(r.added, result)
	}
	r.added++
	return result, nil
}

// Verb returns the CNI_COMMAND of a call's environment.
func Verb(environ []string) string {
	for _, pair := range environ {
		if verb, ok := strings.CutPrefix(pair, "CNI_COMMAND="); ok {
			return verb
		}
	}
	return "call"
}

// Logged logs each call as Process does, for plugins that are executed in another way.
type Logged struct {
	invoke.Exec
	Log hclog.Logger
}

// Took returns the time since a call started, as the log shows it: in milliseconds, because hclog
// quotes the sign of microseconds.
func Took(started time.Time) string {
	return fmt.Sprintf("%.2fms", float64(time.Since(started))/float64(time.Millisecond))
}

// ExecPlugin executes a plugin once.
func (l Logged) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	started := time.Now()
	result, err := l.Exec.ExecPlugin(ctx, path, stdin, environ)
	args := []any{"plugin", filepath.Base(path), "verb", Verb(environ), "took", Took(started)}
	if err != nil {
		args = append(args, "error", err)
	}
	l.Log.Debug("plugin call", args...)
	return result, err
}

// checkResult refuses a result that would crash its readers, among them libcni
// and Nomad's client: an address on an interface that is not listed, and null
// in place of an object.
func checkResult(data []byte) error {
	var result struct {
		Interfaces []*json.RawMessage `json:"interfaces"`
		IPs        []*struct {
			Interface *int `json:"interface"`
		} `json:"ips"`
		Routes []*json.RawMessage `json:"routes"`
	}
	if err := json.Unmarshal(data, &result); err != nil {
		return fmt.Errorf("result: %w", err)
	}
	if slices.Contains(result.Interfaces, nil) || slices.Contains(result.Routes, nil) {
		return errors.New("result: null in place of an interface or a route")
	}
	for i, ip := range result.IPs {
		if ip == nil {
			return fmt.Errorf("result: ips[%d] is null", i)
		}
		if at := ip.Interface; at != nil && (*at < 0 || *at >= len(result.Interfaces)) {
			return fmt.Errorf("result: ips[%d] is of interface number %d, and the result has %d", i, *at, len(result.Interfaces))
		}
	}
	return nil
}
