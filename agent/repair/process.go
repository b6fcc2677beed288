// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"os"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/termtext"
)

// processes are those that this one sees.
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
	stat, err := p.stat(thread)
	if err != nil || stat.Comm != name {
		return r, !strings.Contains(name, "tables-") // as iptables-restore, which allocnet executes
	}
	if parent, err := p.stat(stat.PPID); err == nil && stat.PPID > 1 {
		r.Parent = termtext.Printable(parent.Comm)
	}
	return r, !p.isOwn(stat)
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

func (p processes) stat(id int) (procfs.ProcStat, error) {
	fs, err := procfs.NewFS(p.proc)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	process, err := fs.Proc(id)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return process.Stat()
}
