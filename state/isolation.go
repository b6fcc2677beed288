// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

// Isolation is how an attachment is kept apart from others. What the host has for it is under the name of its end on the host and its
// addresses, which are on record before the host gets it.
type Isolation struct {
	// Level is that of its network.
	Level string `json:"level"`
	// Antispoof is whether frames from its end pass only with its MAC and addresses.
	Antispoof bool `json:"antispoof,omitempty"`
	// NoHost is whether the host does not reach it, but by rules.
	NoHost bool `json:"noHost,omitempty"`
	// End is the name of its end on the host, and Bridge that of which it is a port; empty: of none.
	End    string `json:"end"`
	Bridge string `json:"bridge,omitempty"`
	// MAC is that of its interface, and Addresses are those that it gets. Empty: ADD has not come to that.
	MAC       string       `json:"mac,omitempty"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
}

// isolationDir is the directory of HostIsolation.
const isolationDir = "isolation"

// HostIsolation is what is on record of the isolation of the host as a whole.
type HostIsolation struct {
	dir  string
	disk disk
}

// Isolation returns that on record.
func (s *Store) Isolation() HostIsolation {
	return HostIsolation{filepath.Join(s.dir, isolationDir), s.disk}
}

// Lock is held from when the records are read until the host has what they say. Then no attachment records or adds its own.
func (i HostIsolation) Lock(ctx context.Context) (unlock func(), err error) {
	return files.LockDir(ctx, i.dir, unix.LOCK_EX)
}

// RLock is held from when an attachment is recorded until the host has what it needs, together with others.
func (i HostIsolation) RLock(ctx context.Context) (unlock func(), err error) {
	return files.LockDir(ctx, i.dir, unix.LOCK_SH)
}

// InForce returns the rules that the host has since this boot; nil: nothing is isolated.
func (i HostIsolation) InForce() (rules []byte, err error) {
	data, err := files.ReadNoFollow(i.file())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	boot, err := BootID()
	rules, isOfThisBoot := bytes.CutPrefix(data, []byte(boot+"\n"))
	if err != nil || !isOfThisBoot || !json.Valid(rules) { // one that a power cut has torn is of an earlier boot
		return nil, err
	}
	return rules, nil
}

// SetInForce records rules, which are JSON, before the host gets them; nil: when nothing is isolated any more. It need not outlast a
// power cut, as the rules do not. The caller holds Lock.
func (i HostIsolation) SetInForce(rules []byte) error {
	if rules == nil {
		return i.disk("remove", i.file(), func() error {
			if err := os.Remove(i.file()); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		})
	}
	boot, err := BootID()
	if err != nil {
		return err
	}
	return i.disk("write", i.file(), func() error { return files.Replace(i.file(), append([]byte(boot+"\n"), rules...), files.Options{}) })
}

func (i HostIsolation) file() string { return filepath.Join(i.dir, "in-force") }
