// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/files"
)

// state is what this host does with an address.
type state string

// The states of a record: see the package's documentation.
const (
	taking    state = "taking"
	held      state = "held"
	releasing state = "releasing"
	lost      state = "lost"
)

// record is what this host has on disk of an address that it holds, or may hold.
type record struct {
	State state `json:"state"`
	// Index is the entry's as this host wrote it. 0: the outcome of the write is unknown.
	Index uint64 `json:"index"`
	// Released is since when the state is releasing.
	Released time.Time `json:"released,omitzero"`
	// Drop is whether the address is not to be kept for its key: another host may have taken
	// one for it at the same time.
	Drop bool `json:"drop,omitempty"`
	// Content is what this host wrote to the store, or asked it to write.
	Content ipam.AddressContent `json:"content"`
}

const (
	// recordVersion is that of the files of records. It rises with every change of what they have. Those of before it have none.
	recordVersion = 2
	// unpublishedVersion is that of records without a published address: an earlier program, which leaves none on an interface, reads
	// no others.
	unpublishedVersion = 1
)

// file is a record as it is written.
type file struct {
	Version int `json:"version"`
	record
}

// same returns whether two records are the same version of one.
func (r *record) same(other *record) bool {
	if r == nil || other == nil {
		return r == other
	}
	return r.State == other.State && r.Index == other.Index && r.Drop == other.Drop && r.Content.ClaimID == other.Content.ClaimID
}

// heldAt returns the record of an address whose entry is known.
func (r *record) heldAt(index uint64, content ipam.AddressContent) *record {
	changed := *r
	changed.State, changed.Index, changed.Content = held, index, content
	return &changed
}

type records interface {
	// load returns all, by address.
	load(ctx context.Context) (map[netip.Addr]*record, error)
	// replace replaces one on condition that it is as the old one. Nil: there is none.
	replace(ctx context.Context, address netip.Addr, old, changed *record) (bool, error)
	// remembered returns what was remembered last.
	remembered() (*memory, error)
	remember(m *memory) error
}

// directory keeps records in files, each named after its address.
type directory string

const (
	memoryName = "memory"
	// memoryVersion is that of the file. It rises with every change of what it has. Files of before it have none.
	memoryVersion = 1
)

func (d directory) path(name string) string { return filepath.Join(string(d), name) }

func (d directory) load(context.Context) (map[netip.Addr]*record, error) {
	files, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	found := map[netip.Addr]*record{}
	for _, file := range files {
		address, ok := recordAddress(file.Name())
		if !ok {
			continue
		}
		r, err := d.read(address)
		if err != nil {
			return nil, err
		}
		if r != nil {
			found[address] = r
		}
	}
	return found, nil
}

func recordName(address netip.Addr) string { return ipam.AddressName(address) + ".json" }

func recordAddress(name string) (netip.Addr, bool) {
	name, isRecord := strings.CutSuffix(name, ".json")
	address, err := ipam.ParseAddressName(name)
	return address, isRecord && err == nil
}

// read returns nil if there is no record. One that is damaged is none: what it was of is given
// back, or gets a record again if it is in use, as Verify does it. One of a later release is not damaged.
func (d directory) read(address netip.Addr) (*record, error) {
	var f file
	err := files.ReadVersion(d.path(recordName(address)), recordVersion, &f)
	switch {
	case errors.Is(err, files.ErrLater):
		return nil, fmt.Errorf("%w, which alone can give the address back", err)
	case errors.Is(err, files.ErrDamaged), err == nil && f.Content.Address != address:
		return nil, nil // there is no record that can be read
	}
	return &f.record, err
}

func (d directory) replace(ctx context.Context, address netip.Addr, old, changed *record) (bool, error) {
	unlock, err := files.LockFile(ctx, d.path("lock"), unix.LOCK_EX)
	if err != nil {
		return false, err
	}
	defer unlock()
	present, err := d.read(address)
	if err != nil || !present.same(old) {
		return false, err
	}
	path := d.path(recordName(address))
	if changed == nil {
		return true, os.RemoveAll(path)
	}
	version := unpublishedVersion
	if changed.Content.Published {
		version = recordVersion
	}
	return true, files.ReplaceJSON(path, file{version, *changed}, files.Options{Durable: true})
}

// remembered returns nothing for a file that cannot be read: what a host remembers is a help. One of a later release can
// be read, but not here.
func (d directory) remembered() (*memory, error) {
	m := &memory{}
	err := files.ReadVersion(d.path(memoryName), memoryVersion, m)
	if errors.Is(err, files.ErrLater) {
		return nil, fmt.Errorf("%w: until then no reserved address is taken or given back", err)
	}
	if err != nil {
		return &memory{}, nil
	}
	return m, nil
}

func (d directory) remember(m *memory) error {
	m.Version = memoryVersion
	return files.ReplaceJSON(d.path(memoryName), m, files.Options{})
}
