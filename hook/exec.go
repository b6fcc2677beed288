// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/searchpath"
)

const (
	// maxOutput bounds a plugin's answer. Results are a few KiB; what exceeds
	// this is a plugin gone wild.
	maxOutput = 4 << 20
	// maxStderr is how much of the end of stderr an error carries.
	maxStderr = 2 << 10
	// pipeGrace is how long a plugin's orphaned children may hold its output
	// open after it exited.
	pipeGrace = time.Second
)

// pluginExec runs CNI plugins for one operation on one allocation. Unlike
// libcni's own it gives every call a deadline, kills the whole process group,
// and hands the plugin the allocation's held directory, so that a process that
// comes after kill -9 of this one sees that the plugin still runs.
type pluginExec struct {
	version.PluginDecoder
	limit time.Duration
	hold  *os.File
	log   hclog.Logger
	// added is called with what a plugin of the chain printed for ADD, before
	// the next one runs. Nil: nobody wants to know.
	added func(result []byte)
}

var _ invoke.Exec = (*pluginExec)(nil)

// FindInPath finds a plugin's binary as libcni does.
func (x *pluginExec) FindInPath(plugin string, dirs []string) (string, error) {
	return invoke.FindInPath(plugin, dirs)
}

// ExecPlugin runs a plugin once. Errors are *types.Error as the plugin printed
// it, *TimeoutError, *ExecError, or the context's cause.
func (x *pluginExec) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	call := pluginCall{plugin: filepath.Base(path), verb: verbOf(environ)}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	limit := x.limit
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	ctx, stop := context.WithTimeoutCause(ctx, limit, &TimeoutError{call.plugin, call.verb, limit})
	defer stop()
	ctx, overflow := context.WithCancelCause(ctx)
	defer overflow(nil)
	call.stdout.overflow = func() {
		overflow(&ExecError{call.plugin, call.verb, "", fmt.Errorf("printed more than %d MiB and was killed", maxOutput>>20)})
	}

	cmd := x.command(ctx, path, environ)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &call.stdout, &call.stderr
	started := time.Now()
	err := cmd.Run()
	x.log.Trace("plugin call", "plugin", call.plugin, "verb", call.verb, "took", time.Since(started), "stderr", call.stderr.text(), "error", err)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil { // its own, or the phase's at the same time
		return nil, &TimeoutError{call.plugin, call.verb, limit}
	}
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return nil, cause
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, call.failure(err)
	}
	if call.verb == "ADD" {
		if err := wellFormed(call.stdout.data); err != nil {
			return nil, &ExecError{call.plugin, call.verb, "", err}
		}
	}
	if x.added != nil && call.verb == "ADD" {
		x.added(call.stdout.data)
	}
	return call.stdout.data, nil
}

func (x *pluginExec) command(ctx context.Context, path string, environ []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = searchpath.Complete(environ)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = pipeGrace
	if x.hold != nil {
		cmd.ExtraFiles = []*os.File{x.hold}
	}
	return cmd
}

// pluginCall is one run of a plugin and what it printed.
type pluginCall struct {
	plugin, verb string
	stdout       head
	stderr       tail
}

// failure turns the end of a failed plugin into an error: its own, when it
// printed one as the specification asks.
func (c *pluginCall) failure(err error) error {
	var own types.Error
	if json.Unmarshal(c.stdout.data, &own) == nil && (own.Code != 0 || own.Msg != "") {
		return &own
	}
	stderr := c.stderr.text()
	if stderr == "" {
		stderr = strings.TrimSpace(string(c.stdout.data[max(0, len(c.stdout.data)-maxStderr):]))
	}
	return &ExecError{c.plugin, c.verb, stderr, err}
}

func verbOf(environ []string) string {
	for _, pair := range environ {
		if verb, ok := strings.CutPrefix(pair, "CNI_COMMAND="); ok {
			return verb
		}
	}
	return "call"
}

// head keeps the first maxOutput bytes and reports that there were more.
type head struct {
	data     []byte
	overflow func()
}

func (h *head) Write(p []byte) (int, error) {
	room := min(maxOutput-len(h.data), len(p))
	h.data = append(h.data, p[:room]...)
	if room < len(p) {
		h.overflow()
	}
	return len(p), nil
}

// tail keeps about the last maxStderr bytes.
type tail struct{ data []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if extra := len(t.data) - maxStderr; extra > 0 {
		t.data = append(t.data[:0], t.data[extra:]...)
	}
	return len(p), nil
}

func (t *tail) text() string { return strings.TrimSpace(string(t.data)) }
