// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox"
)

type process struct {
	cmd    *exec.Cmd // nsenter, whose child is the daemon
	pid    int
	exited chan struct{}
}

// Start starts a daemon, whose log is appended to NAME.log in the machine's directory.
func (m *Machine) Start(name string, words ...string) error {
	log, err := os.OpenFile(m.Path(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the daemon has it
	p := &process{cmd: m.Command(words...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = p.cmd.Wait() // it is signalled
		close(p.exited)
	}()
	if err := p.findChild(); err != nil {
		return err
	}
	m.running.Store(name, p)
	return nil
}

// process returns a daemon, nil if it was never started.
func (m *Machine) process(name string) *process {
	p, _ := m.running.Load(name)
	found, _ := p.(*process) // nil
	return found
}

// findChild waits until nsenter has forked.
func (p *process) findChild() error {
	own := p.cmd.Process.Pid
	for range 1000 {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", own, own))
		if err != nil {
			return err
		}
		if _, err := fmt.Sscan(strings.TrimSpace(string(text)), &p.pid); err == nil {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("process %d has no child", own)
}

// Has reports whether the process of a directory of /proc runs on one of the clients.
func (c *Cluster) Has(proc string) bool {
	namespace, err := os.Readlink(proc + "/ns/pid")
	return err == nil && slices.ContainsFunc(c.Clients, func(m *Machine) bool {
		if !m.IsOn() {
			return false
		}
		of, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", m.init.Process.Pid))
		return err == nil && of == namespace
	})
}

// Runs reports whether a daemon of the machine runs.
func (m *Machine) Runs(name string) bool {
	p := m.process(name)
	if p == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Signal sends a signal to a daemon. One that ends it is waited for.
func (m *Machine) Signal(name string, signal unix.Signal) error {
	if !m.Runs(name) {
		return fmt.Errorf("%s of %s does not run", name, m.Name)
	}
	if name == Nomad && signal == unix.SIGKILL {
		m.killed.Store(true)
	}
	p := m.process(name)
	if signal == unix.SIGSTOP {
		return sandbox.Stop(p.pid)
	}
	if err := unix.Kill(p.pid, signal); err != nil {
		return err
	}
	switch signal {
	case unix.SIGCONT:
		return p.cmd.Process.Signal(signal) // it stops when its child does
	case unix.SIGKILL, unix.SIGTERM, unix.SIGINT:
		return m.awaitExit(name)
	}
	return nil
}

func (m *Machine) awaitExit(name string) error {
	return Await(name+" of "+m.Name+" ends", func() error {
		if m.Runs(name) {
			return fmt.Errorf("process %d runs", m.process(name).pid)
		}
		return nil
	})
}
