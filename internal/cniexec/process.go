// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniexec

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

// pipeGrace is how long a plugin's orphaned children may hold its output open
// after it exited.
const pipeGrace = time.Second

// Process runs plugins as processes. Unlike libcni's own invoke.Exec it kills the
// whole process group when the context ends, bounds the output, and hands the
// plugin an open file.
type Process struct {
	version.PluginDecoder
	// Hold is inherited by each plugin as file descriptor 3, so that its locks
	// tell, after kill -9 of this process, that the plugin still runs. Default:
	// none.
	Hold *os.File
	// Log gets a line for each call. Required.
	Log hclog.Logger
}

var _ invoke.Exec = (*Process)(nil)

// FindInPath finds a plugin's binary as libcni does.
func (*Process) FindInPath(plugin string, dirs []string) (string, error) {
	return invoke.FindInPath(plugin, dirs)
}

// ExecPlugin runs a plugin once. Errors are *types.Error as the plugin printed
// it, *ExecError, or the context's cause.
func (p *Process) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	call := call{plugin: filepath.Base(path), path: path, verb: Verb(environ)}
	ctx, overflow := context.WithCancelCause(ctx)
	defer overflow(nil)
	call.stdout.overflow = func() {
		overflow(&ExecError{call.plugin, call.verb, "", fmt.Errorf("printed more than %d MiB and was killed", maxOutput>>20)})
	}

	cmd := p.command(ctx, path, environ)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &call.stdout, &call.stderr
	started := time.Now()
	err := cmd.Run()
	p.log(&call, time.Since(started), err)
	if err == nil || errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		return call.stdout.data, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	return nil, call.failure(err)
}

func (p *Process) log(c *call, took time.Duration, err error) {
	args := []any{"plugin", c.plugin, "verb", c.verb, "took", took.Round(time.Millisecond)}
	if err != nil {
		args = append(args, "error", c.failure(err)) // has stderr
	} else if text := c.stderr.text(); text != "" {
		args = append(args, "stderr", text)
	}
	p.Log.Debug("plugin call", args...)
}

func (p *Process) command(ctx context.Context, path string, environ []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = searchpath.Complete(environ)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = pipeGrace
	if p.Hold != nil {
		cmd.ExtraFiles = []*os.File{p.Hold}
	}
	return cmd
}

// call is one run of a plugin and what it printed.
type call struct {
	plugin, path, verb string
	stdout             head
	stderr             tail
}

// failure turns the end of a failed plugin into an error: its own, when it
// printed one as the specification asks.
func (c *call) failure(err error) error {
	var own types.Error
	if json.Unmarshal(c.stdout.data, &own) == nil && (own.Code != 0 || own.Msg != "") {
		return answer(c.path, &own)
	}
	stderr := c.stderr.text()
	if stderr == "" {
		stderr = strings.TrimSpace(string(c.stdout.data[max(0, len(c.stdout.data)-maxStderr):]))
	}
	return &ExecError{c.plugin, c.verb, stderr, err}
}

const (
	// maxOutput bounds a plugin's answer. Results are a few KiB; a plugin that
	// prints more than this is out of control.
	maxOutput = 4 << 20
	// maxStderr is how much of the end of stderr an error carries.
	maxStderr = 2 << 10
)

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
