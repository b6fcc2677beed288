// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniexec

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/hashicorp/go-hclog"
)

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
