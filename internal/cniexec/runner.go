// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniexec

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
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

	// added counts the results.
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
