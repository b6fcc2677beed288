// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package unit tells whether the systemd unit of an allocation is gone. The record of
// the allocation names the unit, and the process that has systemd start it: while that
// process runs, the unit may still be started.
package unit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// prefix begins the owner of an allocation for a unit. No CNI network has such a
// name.
const prefix = "systemd:"

// Owner is the owner in the record of an allocation that this process sets up for a
// unit.
func Owner(name string) (string, error) {
	started, err := startOf(os.Getpid())
	if err != nil {
		return "", fmt.Errorf("start of this process: %w", err)
	}
	return fmt.Sprintf("%s%s:%d:%s", prefix, name, os.Getpid(), started), nil
}

const askTimeout = 5 * time.Second

// Gone tells whether the unit of an owner does not exist and will not be started:
// systemd does not have it, and the process that starts it has ended. The error is that
// either is unknown. An owner that is not a unit is never gone.
func Gone(ctx context.Context, owner string) (bool, error) {
	name, pid, started, ok := parse(owner)
	if !ok {
		return false, nil
	}
	now, err := startOf(pid)
	switch {
	case err == nil && now == started:
		return false, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH):
		return false, fmt.Errorf("process that starts unit %s: %w", name, err)
	}
	unit, err := ask(ctx, name)
	return err == nil && unit["LoadState"] == "not-found", err
}

// RunsIn tells whether systemd runs or starts a unit in the network namespace at a path.
// A unit of that name in another namespace belongs to another allocation. The error is
// that this is unknown.
func RunsIn(ctx context.Context, name, netns string) (bool, error) {
	unit, err := ask(ctx, name)
	if err != nil || unit["NetworkNamespacePath"] != netns {
		return false, err
	}
	ended := unit["ActiveState"] == "inactive" || unit["ActiveState"] == "failed"
	return !ended || unit["Job"] != "", nil // a queued start is a job
}

func parse(owner string) (name string, pid int, started string, ok bool) {
	rest, ok := strings.CutPrefix(owner, prefix)
	parts := strings.Split(rest, ":")
	if !ok || len(parts) != 3 {
		return "", 0, "", false
	}
	pid, err := strconv.Atoi(parts[1])
	return parts[0], pid, parts[2], err == nil
}

// ask returns the properties of a unit that have a value.
func ask(ctx context.Context, name string) (map[string]string, error) {
	ctx, stop := context.WithTimeout(ctx, askTimeout)
	defer stop()
	if filepath.Ext(name) != ".service" {
		name += ".service"
	}
	out, err := exec.CommandContext(ctx, "systemctl", "show", "--property=LoadState,ActiveState,Job,NetworkNamespacePath", "--", name).Output()
	if err != nil {
		return nil, fmt.Errorf("ask systemd for unit %s: %w", name, err)
	}
	properties := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), "="); value != "" {
			properties[key] = value
		}
	}
	if properties["LoadState"] == "" || properties["ActiveState"] == "" {
		return nil, fmt.Errorf("ask systemd for unit %s: got %q, want LoadState= and ActiveState=", name, out)
	}
	return properties, nil
}

// startOf returns the start time of a process, in ticks since the boot, which
// identifies the process together with its PID (proc_pid_stat(5)). A zombie process
// does not exist.
func startOf(pid int) (string, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return "", err
	}
	stat, err := process.Stat()
	if err == nil && (stat.State == "Z" || stat.State == "X") {
		err = fs.ErrNotExist
	}
	return strconv.FormatUint(stat.Starttime, 10), err
}
