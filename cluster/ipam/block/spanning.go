// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/allocnet/allocnet/cluster/hostid"
	"github.com/allocnet/allocnet/cluster/ipam"
)

// Spanning is a pool whose networks span hosts, of which this host has blocks.
type Spanning struct {
	Pool    string
	Subnets []netip.Prefix
	Blocks  []ipam.Block
}

// SpanningPools returns those on record in a state directory, with or without a network.
func SpanningPools(stateDir string) ([]Spanning, error) {
	dir := filepath.Join(stateDir, "ipam")
	entries, err := os.ReadDir(filepath.Join(dir, "pools"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the pools on record: %w", err)
	}
	self, err := hostid.Read(dir)
	if err != nil {
		return nil, err
	}
	var all []Spanning
	for _, entry := range entries {
		l := New(Options{Config: &ipam.Config{Pool: entry.Name(), StateDir: stateDir}})
		r, err := l.ledger.readWritten(self.Instance)
		if err != nil {
			return nil, err
		}
		if s := r.spanning(); len(s.Blocks) > 0 {
			all = append(all, s)
		}
	}
	return all, nil
}

// spanning has no blocks if the pool is flat.
func (r *records) spanning() (s Spanning) {
	if r.Agreed == nil || r.Agreed.Mode == ipam.ModeFlat {
		return s
	}
	s.Pool = r.Agreed.Pool
	for _, one := range r.Agreed.Ranges {
		s.Subnets = append(s.Subnets, one.Subnet)
	}
	for _, b := range r.Blocks {
		if b.State != Lost {
			s.Blocks = append(s.Blocks, b.Block)
		}
	}
	return s
}
