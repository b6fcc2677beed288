// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/hostid"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/files"
)

const (
	nodeFile = "node.json"
	// nodeVersion is that of node.json. It rises with every change of what it has. Files of before it have none.
	nodeVersion = 1
	// mostNonces are the host's own that it remembers: the store may be restored to one. So are its
	// boots.
	mostNonces = 64
	// registerAttempts are made against others that change the entry at the same time.
	registerAttempts = 3
	// copiedFor is for how long a copy that was refused is reported.
	copiedFor = time.Hour
)

// node is what this host wrote to its own entry below nodes/.
type node struct {
	Version   int    `json:"version"`
	Instance  string `json:"instance"`
	MachineID string `json:"machineID"`
	// Boot is that of the last nonce.
	Boot string `json:"boot"`
	// Boots are those of this machine, the last one last.
	Boots []string `json:"boots,omitempty"`
	// Nonces are this host's own, the last one last.
	Nonces []string `json:"nonces"`
	// Registered is since when the store has had a nonce of this machine, or none was needed, in
	// the boot that the last nonce is of.
	Registered moment `json:"registered"`
	// Twin: the store had a nonce of another machine.
	Twin bool `json:"twin"`
	// Contested: the store said, or was about to say, that there are two. It has to say so until an
	// operator has removed the entry.
	Contested bool `json:"contested,omitempty"`
	// Seen is when the store last had a nonce of this machine, and Renewed when the last one was
	// written.
	Seen    moment `json:"seen,omitzero"`
	Renewed moment `json:"renewed,omitzero"`
	// Index is that of the entry with the last nonce. A lower one is of a store that was restored.
	Index uint64 `json:"index,omitempty"`
	// Copied is when this machine last took its place again from a copy of it.
	Copied moment `json:"copied,omitzero"`
	// Fence is what the entry says.
	Fence int64 `json:"fence,omitempty"`
}

// machine is what this one is to the store and to its own boots, common to all pools.
type machine struct {
	clock clock
	// random returns 128 random bits as hexadecimal digits.
	random func() string
	// dir has what is common to all pools, and run what of that a boot ends.
	dir, run disk
	// self reads who this host is from files, without what Nomad knows.
	self func() (hostid.Identity, error)
	// attends: this process verifies all the time.
	attends atomic.Bool
	logger  hclog.Logger
}

// read reads what the host wrote. Another instance begins anew.
func (m *machine) read(instance string) (*node, error) {
	n := &node{}
	if err := readJSON(m.dir, nodeFile, nodeVersion, n); err != nil {
		return nil, fmt.Errorf("%s: %w: no address is given out; restore the file, or, if no other machine is a copy of this one, remove it and delete the store's %s",
			m.dir.pathOf(nodeFile), err, ipam.NodePath(instance))
	}
	if n.Instance != instance {
		n = &node{Instance: instance}
	}
	return m.ofThisBoot(n)
}

// ofThisBoot returns what this machine wrote in this boot, whatever the state directory was
// restored to since.
func (m *machine) ofThisBoot(n *node) (*node, error) {
	self, errSelf := m.self()
	p := &node{}
	err := readJSON(m.run, nodeFile, nodeVersion, p)
	switch {
	case errors.Is(err, files.ErrLater):
		return nil, fmt.Errorf("%s: %w: no address is given out in this boot", m.run.pathOf(nodeFile), err)
	case err != nil, errSelf != nil, p.Instance != n.Instance, p.Boot != self.Boot:
		return n, nil
	}
	return p, nil
}

// closed returns the error of a machine that is not the one that wrote the file, or that found
// another in its place.
func (n *node) closed(self ipam.Host) error {
	why := ""
	switch {
	case n.MachineID != "" && n.MachineID != self.MachineID:
		why = fmt.Sprintf("the state directory was used by the machine %s, and this is %s", n.MachineID, self.MachineID)
	case n.Twin:
		why = "the store has another machine in this one's place"
	default:
		return nil
	}
	return fmt.Errorf("%w: instance %s: %s: on the copy, remove instance, node.json and pools from the state directory's ipam, and Nomad's data_dir; then delete the store's %s",
		ipam.ErrTwin, n.Instance, why, ipam.NodePath(n.Instance))
}

func (n *node) last() string {
	if len(n.Nonces) == 0 {
		return ""
	}
	return n.Nonces[len(n.Nonces)-1]
}
