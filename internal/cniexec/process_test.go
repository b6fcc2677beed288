// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniexec

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// script returns a directory that has a shell script as the plugin "fake".
func script(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "fake"), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// run runs a plugin until another process, which was forked while the script was
// open for writing, has executed its own program.
func run(ctx context.Context, p *Process, path, stdin string) (string, error) {
	for {
		out, err := p.ExecPlugin(ctx, path, []byte(stdin), []string{"CNI_COMMAND=ADD"})
		if !errors.Is(err, unix.ETXTBSY) {
			return string(out), err
		}
	}
}

func TestProcess(t *testing.T) {
	for name, test := range map[string]struct {
		script, want string
		code         uint   // of the plugin's own error
		fail         string // in an ExecError
	}{
		"result":                 {"cat", "stdin", 0, ""},
		"stderr beside a result": {"echo noise >&2; echo done", "done\n", 0, ""},
		"environment":            {"echo $CNI_COMMAND", "ADD\n", 0, ""},
		"sbin directories":       {`case "$PATH" in *sbin*) echo found;; esac`, "found\n", 0, ""},
		"own error":              {`echo '{"code": 104, "msg": "no fabric"}'; exit 1`, "", 104, ""},
		"own error without code": {`echo '{"msg": "no fabric"}'; exit 1`, "", 0, "no fabric"},
		"no error object":        {"echo crashed >&2; exit 3", "", 0, "plugin fake: ADD: exit status 3: crashed"},
		"only text on stdout":    {"echo segfault; exit 3", "", 0, "exit status 3: segfault"},
		"killed":                 {"kill -9 $$", "", 0, "signal: killed"},
		"the end of long errors": {"head -c 100000 /dev/zero | tr '\\0' x >&2; echo last >&2; exit 1", "", 0, "xlast"},
		"more output than bound": {"yes", "", 0, "printed more than 4 MiB and was killed"},
		"pipe held by its child": {"sleep 1000 & echo $!", "pid", 0, ""},
		"descriptor 3 is closed": {"if { true <&3; } 2>/dev/null; then echo open; else echo closed; fi", "closed\n", 0, ""},
		"no output":              {"true", "", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := script(t, test.script)
			p := &Process{Log: hclog.NewNullLogger()}
			path, err := p.FindInPath("fake", []string{t.TempDir(), dir})
			if err != nil || path != filepath.Join(dir, "fake") {
				t.Fatalf("found %q, %v", path, err)
			}
			got, err := run(t.Context(), p, path, "stdin")
			if test.want == "pid" {
				pid, err := strconv.Atoi(strings.TrimSpace(got))
				if err != nil {
					t.Fatal(err)
				}
				_ = unix.Kill(pid, unix.SIGKILL) // the child of the script
				return
			}
			var own *types.Error
			var failed *ExecError
			switch {
			case test.code != 0:
				if !errors.As(err, &own) || own.Code != test.code {
					t.Errorf("%v, want code %d", err, test.code)
				}
			case test.fail != "":
				if err == nil || !strings.Contains(err.Error(), test.fail) || errors.As(err, &failed) && errdefs.Of(err) != errdefs.Failed {
					t.Errorf("%v, want %q", err, test.fail)
				}
			case err != nil || got != test.want:
				t.Errorf("%q, %v, want %q", got, err, test.want)
			}
		})
	}
}

// TestProcessLog: each call is a line with its duration.
func TestProcessLog(t *testing.T) {
	for text, want := range map[string]string{
		"true":                    `fake: plugin call: plugin=fake verb=ADD took=\d\S*\n`,
		"echo noise >&2":          `fake: plugin call: plugin=fake verb=ADD took=\d\S* stderr=noise\n`,
		"echo crashed >&2; false": `fake: plugin call: plugin=fake verb=ADD took=\d\S* error="plugin fake: ADD: exit status 1: crashed"\n`,
	} {
		var log bytes.Buffer
		p := &Process{Log: hclog.New(&hclog.LoggerOptions{Name: "fake", Level: hclog.Debug, Output: &log, DisableTime: true})}
		_, _ = run(t.Context(), p, filepath.Join(script(t, text), "fake"), "") // logged
		if !regexp.MustCompile(want + "$").MatchString(log.String()) {
			t.Errorf("%s: %q, want %s", text, log.String(), want)
		}
	}
}

// TestProcessMissing: a plugin that is not there.
func TestProcessMissing(t *testing.T) {
	p := &Process{Log: hclog.NewNullLogger()}
	_, err := run(t.Context(), p, filepath.Join(t.TempDir(), "none"), "")
	var failed *ExecError
	if !errors.As(err, &failed) || !errors.Is(err, os.ErrNotExist) || failed.Plugin != "none" || failed.Verb != "ADD" {
		t.Errorf("got %v", err)
	}
}

// TestProcessHold: plugins inherit the file, and nothing else.
func TestProcessHold(t *testing.T) {
	dir := script(t, "cat <&3")
	file, err := os.Create(filepath.Join(dir, "held"))
	if err == nil {
		_, err = file.WriteString("held")
	}
	if err == nil {
		_, err = file.Seek(0, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	got, err := run(t.Context(), &Process{Hold: file, Log: hclog.NewNullLogger()}, filepath.Join(dir, "fake"), "")
	if err != nil || got != "held" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestProcessGroup: when the call ends so do all processes that the plugin has
// started, and the error is the cause.
func TestProcessGroup(t *testing.T) {
	gaveUp := errors.New("the caller gave up")
	dir := script(t, `sleep 1000 & echo $! >"$0.pid"; mv "$0.pid" "$0.ready"; wait`)
	path := filepath.Join(dir, "fake")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := run(ctx, &Process{Log: hclog.NewNullLogger()}, path, "")
		ended <- err
	}()
	var pid int
	for pid == 0 {
		if text, err := os.ReadFile(path + ".ready"); err == nil {
			pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		time.Sleep(time.Millisecond)
	}
	cancel(gaveUp)
	if err := <-ended; !errors.Is(err, gaveUp) {
		t.Errorf("%v, want %v", err, gaveUp)
	}
	for deadline := time.Now().Add(10 * time.Second); alive(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			_ = unix.Kill(pid, unix.SIGKILL)
			t.Fatal("a process that the plugin started runs 10 s after the call ended")
		}
	}
}

// alive tells whether a process runs. One that nothing waits for yet has ended.
func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestTransientIsADeath(t *testing.T) {
	dir := script(t, "exit 1")
	_, err := run(t.Context(), &Process{Log: hclog.NewNullLogger()}, filepath.Join(dir, "fake"), "")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !Transient(err) {
		t.Errorf("%v is not transient", err)
	}
}
