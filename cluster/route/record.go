// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/files"
)

// record says what of the kernel's tables is a pool's. It is written before anything is made.
type record struct {
	Version int    `json:"version"`
	Pool    string `json:"pool"`
	// Subnets have the pool's routes.
	Subnets []netip.Prefix `json:"subnets"`
	// Device is the VXLAN device. Empty: there is none.
	Device string `json:"device,omitempty"`
}

const (
	recordSuffix = ".json"
	// recordVersion is that of the files of records. It rises with every change of what they have. Those of before it have none.
	recordVersion = 1
)

func (t *Table) recordPath(pool string) string { return filepath.Join(t.o.Dir, pool+recordSuffix) }

// has is whether a route of ours is the pool's: that of the narrowest subnet among all records, or of the
// device.
func (r record) has(e entry, all []record) bool {
	if r.Device != "" && e.device == r.Device {
		return true
	}
	bits := r.around(e.prefix)
	return bits >= 0 && !slices.ContainsFunc(all, func(other record) bool {
		return other.Pool != r.Pool && other.around(e.prefix) > bits
	})
}

// around is the length of the narrowest subnet that has the prefix; -1 if none has.
func (r record) around(prefix netip.Prefix) int {
	bits := -1
	for _, s := range r.Subnets {
		if s.Bits() <= prefix.Bits() && s.Contains(prefix.Addr()) {
			bits = max(bits, s.Bits())
		}
	}
	return bits
}

// readRecord returns the record of a pool. One that is missing or damaged says nothing: the
// protocol and the aliases are left to find what is ours. One of a later release says what only that one knows.
func (t *Table) readRecord(pool string) (record, error) {
	r := record{Pool: pool}
	err := files.ReadVersion(t.recordPath(pool), recordVersion, &r)
	switch {
	case errors.Is(err, files.ErrDamaged), err == nil && r.Pool != pool:
		return record{Pool: pool}, nil
	case err != nil:
		return r, fmt.Errorf("read the record of the routes: %w", err)
	}
	return r, nil
}

func (t *Table) records() ([]record, error) {
	entries, err := files.IfExists(os.ReadDir(t.o.Dir))
	if err != nil {
		return nil, fmt.Errorf("list the records of the routes: %w", err)
	}
	var all []record
	for _, e := range entries {
		name := e.Name()
		if of, temporary := files.OfTemporary(name); temporary { // its writer was killed
			name = of
		}
		pool, ok := strings.CutSuffix(name, recordSuffix)
		if !ok || slices.ContainsFunc(all, func(r record) bool { return r.Pool == pool }) {
			continue
		}
		r, err := t.readRecord(pool)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// Pools returns the pools on record, with their names and subnets alone: what an earlier process has
// left, too. Of a damaged record, and of one that was never completed, there is the name.
func (t *Table) Pools() ([]Pool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	records, err := t.records()
	var all []Pool
	for _, r := range records {
		all = append(all, Pool{Name: r.Pool, Subnets: r.Subnets})
	}
	return all, err
}

// widen records a pool before its objects are made. The record keeps the subnets that the pool had
// before, until Apply has removed their routes.
func (t *Table) widen(p Pool) (record, error) {
	r, err := t.readRecord(p.Name)
	if err != nil {
		return r, err
	}
	want := r
	want.Subnets = slices.Clone(r.Subnets)
	for _, s := range p.Subnets {
		if !slices.Contains(want.Subnets, s) {
			want.Subnets = append(want.Subnets, s)
		}
	}
	if p.Mode.HasVXLAN() {
		want.Device = deviceName(p.Name)
	}
	return want, t.writeRecord(r, want)
}

func (t *Table) writeRecord(have, want record) error {
	if slices.Equal(have.Subnets, want.Subnets) && have.Device == want.Device {
		return nil
	}
	want.Version = recordVersion
	return files.ReplaceJSON(t.recordPath(want.Pool), want, files.Options{})
}
