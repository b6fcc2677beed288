// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package packetfilter

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/allocnet/allocnet/internal/files"
)

// record says what there may be of ours. It is written before anything is made.
type record struct {
	Version int `json:"version"`
	// HasRules is whether there may be rules of iptables.
	HasRules bool `json:"rules,omitempty"`
	// Sources are those of firewalld.
	Sources []source `json:"sources,omitempty"`

	isDamaged bool
}

// assume makes a damaged record say that all subnets that are known may be sources.
func (r *record) assume(known map[string][]netip.Prefix) {
	if !r.isDamaged {
		return
	}
	for _, pool := range slices.Sorted(maps.Keys(known)) {
		for _, subnet := range known[pool] {
			r.Sources = append(r.Sources, source{pool, subnet})
		}
	}
}

// recordName is that of the record. Records of routes have a suffix.
const recordName = "filter"

// recordVersion is that of the record. It rises with every change of what it has. One of before it has none.
const recordVersion = 1

func (k *Keeper) recordPath() string { return filepath.Join(k.o.Dir, recordName) }

// HasRecord is whether there may be something of ours on the host.
func (k *Keeper) HasRecord() bool {
	_, err := os.Lstat(k.recordPath())
	return err == nil
}

func (k *Keeper) readRecord() (record, error) {
	var r record
	err := files.ReadVersion(k.recordPath(), recordVersion, &r)
	switch {
	case errors.Is(err, files.ErrDamaged):
		return record{HasRules: true, isDamaged: true}, nil
	case err != nil:
		return r, fmt.Errorf("read the record of the filters: %w", err)
	}
	return r, nil
}

// writeRecord replaces the record, unless it is the same. An empty one is no file.
func (k *Keeper) writeRecord(want record) error {
	var once []source
	for _, s := range want.Sources {
		if !slices.Contains(once, s) {
			once = append(once, s)
		}
	}
	want.Sources = once
	have, err := k.readRecord()
	if err != nil {
		return err
	}
	switch {
	case !want.HasRules && len(want.Sources) == 0:
		return files.Remove(k.recordPath())
	case !have.isDamaged && have.HasRules == want.HasRules && slices.Equal(have.Sources, want.Sources):
		return nil
	}
	want.Version = recordVersion
	return files.ReplaceJSON(k.recordPath(), want, files.Options{})
}
