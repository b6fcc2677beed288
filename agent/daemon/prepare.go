// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/hook"
)

// Prepare does what the agent has no right to do under its systemd unit: it loads kernel
// modules, and sets owner and group of the socket that systemd made. Without the unit
// the agent does both itself. It logs to stderr.
func Prepare(load Load, stderr io.Writer) error {
	c, err := load()
	if err != nil {
		return err
	}
	log, err := newLogger(c, stderr)
	if err != nil {
		return err
	}
	if c.Hook == hook.NoOp {
		_, err = hook.New(hook.NoOp, hook.Config{Logger: log}) // loads br_netfilter
	} else {
		loadTables(log)
	}
	return errors.Join(err, adoptExisting(c.Socket))
}

// loadTables loads the modules that iptables-legacy loads itself. The kernel loads all
// others on demand.
func loadTables(log hclog.Logger) {
	version, err := exec.Command("iptables", "--version").Output()
	if err != nil || strings.Contains(string(version), "nf_tables") {
		return
	}
	if out, err := exec.Command("modprobe", "-aq", "ip_tables", "ip6_tables").CombinedOutput(); err != nil {
		log.Warn("load the modules of iptables-legacy", "error", err, "output", string(out))
	}
}

// adoptExisting does nothing without a socket: the agent then makes it.
func adoptExisting(s config.Socket) error {
	info, err := os.Lstat(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("socket %s: is a file of another kind", s.Path)
	}
	return agent.Adopt(s.Path, s.Access)
}
