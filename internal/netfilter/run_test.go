// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestProgramHangs: a program that does not end is ended by its limit, and with its caller, also if a process that it has
// started goes on.
func TestProgramHangs(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	end, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	hangs := "cat " + fifo + "; true"
	limited, stop := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("it does not end"))
	defer stop()
	if _, err := (netfilter.Runner{}).Run(limited, "", "sh", "-c", hangs); err == nil || !strings.Contains(err.Error(), "sh: it does not end") {
		t.Errorf("with a limit: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := (netfilter.Runner{}).Run(ctx, "", "sh", "-c", hangs); !errors.Is(err, context.Canceled) {
		t.Errorf("with its caller: %v", err)
	}
	if out, err := (netfilter.Runner{}).Run(t.Context(), "*nat\n", "sh", "-c", "cat "+fifo+" & exec cat"); err != nil || out != "*nat\n" {
		t.Errorf("it ends, and what it has started does not: %q, %v", out, err)
	}
	if out, err := (netfilter.Runner{}).Run(t.Context(), "*nat\n", "cat"); err != nil || out != "*nat\n" {
		t.Errorf("it ends: %q, %v", out, err)
	}
	late, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer stop()
	if out, err := (netfilter.Runner{}).Run(late, "", "sh", "-c", "cat "+fifo+" & echo part"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("its limit ends while what it has started may print more: %q, %v", out, err)
	}
	for _, where := range []string{"", " >&2"} {
		var exit *exec.ExitError
		if _, err := (netfilter.Runner{}).Run(t.Context(), "", "sh", "-c", "echo reason"+where+"; exit 3"); !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(err.Error(), "sh: exit status 3: reason") {
			t.Errorf("it fails: %v, want the program, its status, and what it says", err)
		}
	}
}

// orphanVariable has this program be one that is killed while a program runs.
const orphanVariable = "ALLOCNET_TEST_PROGRAM"

func runOrphan(file string) {
	_, _ = netfilter.Runner{}.Run(context.Background(), "", "sh", "-c", "echo $$ > "+file+"; exec sleep 600")
}

// TestProgramIsOrphan: a program ends with a process that is killed. It would change rules later, when all are
// removed.
func TestProgramIsOrphan(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	parent := exec.Command("/proc/self/exe")
	parent.Env = append(os.Environ(), orphanVariable+"="+file)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid string
	sandbox.Eventually(t, "the program runs", func() bool {
		data, err := os.ReadFile(file)
		pid = strings.TrimSpace(string(data))
		return err == nil && strings.HasSuffix(string(data), "\n")
	})
	_ = parent.Process.Kill()
	_ = parent.Wait()
	sandbox.Eventually(t, "the program ends", func() bool {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		return err != nil || bytes.Contains(stat, []byte(") Z "))
	})
}
