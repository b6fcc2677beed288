// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"io"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/hook"
)

// TestSecondSignal: a SIGTERM that arrives when the server has stopped does not end
// the process, which would hide its exit code.
func TestSecondSignal(t *testing.T) {
	dir := t.TempDir()
	c := config.Config{Hook: hook.NoOp, StateDir: dir, LogLevel: "info", LogFormat: "text", Socket: config.Socket{Path: dir + "/run/agent.sock"}}
	d, err := New(func() (config.Config, error) { return c, nil }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := d.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(unix.Getpid(), unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // a process that the signal ends does not come here
}
