// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/termtext"
)

type processes struct {
	// proc is the directory /proc, and self this process.
	proc string
	self int
}

func ownProcesses() processes { return processes{procfs.DefaultMountPoint, os.Getpid()} }

// remover returns the process of a thread that has removed rules, with its name then. It is false
// for one that is allocnet's, or may be: of a process that has ended only the name tells.
func (p processes) remover(thread int, name string) (hook.Remover, bool) {
	r := hook.Remover{Name: termtext.Printable(name), PID: thread}
	if name == "" || strings.HasPrefix(name, "allocnet") {
		return r, false
	}
	stat, _ := p.stat(thread)
	if stat.Comm != name { // it has ended
		return r, !slices.Contains(restorers, name)
	}
	r.PID = p.group(thread)
	if parent, err := p.stat(stat.PPID); err == nil && stat.PPID > 1 {
		r.Parent = termtext.Printable(parent.Comm)
	}
	return r, !p.isOwn(stat)
}

// restorers are the names that the kernel has for iptables-restore and ip6tables-restore, which
// allocnet executes.
var restorers = []string{"iptables-restor", "ip6tables-resto"}

// group is the process of a thread; the thread, if it is not known.
func (p processes) group(thread int) int {
	process, err := p.process(thread)
	if err != nil {
		return thread
	}
	status, _ := process.NewStatus() // 0 with an error
	return cmp.Or(status.TGID, thread)
}

// maxAncestors is how far a child may be from this process.
const maxAncestors = 8

// isOwn tells whether a process is a child of this one, or of one of its children.
func (p processes) isOwn(stat procfs.ProcStat) bool {
	for range maxAncestors {
		if stat.PPID == p.self {
			return true
		}
		var err error
		if stat, err = p.stat(stat.PPID); err != nil {
			return false
		}
	}
	return false
}

func (p processes) stat(id int) (stat procfs.ProcStat, err error) {
	process, err := p.process(id)
	if err == nil {
		stat, err = process.Stat()
	}
	return stat, err
}

func (p processes) process(id int) (procfs.Proc, error) {
	fs, err := procfs.NewFS(p.proc)
	if err != nil {
		return procfs.Proc{}, err
	}
	return fs.Proc(id)
}
