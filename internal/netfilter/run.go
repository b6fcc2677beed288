// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Runner executes programs that list or change rules.
type Runner struct {
	// Holds are files that a program inherits. Their locks tell, after kill -9 of this process, that it still runs. Without
	// them it ends with this process: what it changed later would be seen by no one.
	Holds []*os.File
}

// Run executes a program until the context ends, and returns what it prints.
func (r Runner) Run(ctx context.Context, stdin, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second // a process that it has started may keep the output open
	cmd.ExtraFiles = r.Holds
	if len(r.Holds) == 0 {
		runtime.LockOSThread() // Pdeathsig is about the thread that starts the program
		defer runtime.UnlockOSThread()
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil && (!errors.Is(err, exec.ErrWaitDelay) || ctx.Err() != nil) {
		says := cmp.Or(strings.TrimSpace(stderr.String()), strings.TrimSpace(stdout.String()))
		return "", fmt.Errorf("%s: %w: %s", name, cmp.Or(context.Cause(ctx), err), says)
	}
	return stdout.String(), nil
}
