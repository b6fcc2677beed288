// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/files"
)

// State is what a host knows of its lease of a block.
type State string

// The states of a record.
const (
	// Claiming: the block was requested, and the outcome is not known.
	Claiming State = "claiming"
	// Held: the store has the block as this host's.
	Held State = "held"
	// Releasing: the block is to be given back. No address of it is in use.
	Releasing State = "releasing"
	// Lost: the store has the block as another host's, or has had it. Addresses that are in use stay.
	Lost State = "lost"
)

// Record is what a host has on disk of one block.
type Record struct {
	Block ipam.Block `json:"block"`
	State State      `json:"state"`
	// Claim is the ID of the claim in the store's entry.
	Claim string `json:"claim"`
	// Index is that of the store's entry. 0: not known.
	Index uint64 `json:"index"`
	// NodeID is the one in the store's entry.
	NodeID string `json:"nodeID"`
	// Since is when the block was claimed.
	Since time.Time `json:"since"`
	// Boot is the one in which this machine last wrote the entry as it is: it claimed the block, or
	// opened it. Empty: another may have written it, or a request of before may change it.
	Boot string `json:"boot,omitempty"`
	// Endpoint is the one in the store's entry.
	Endpoint ipam.Endpoint `json:"endpoint,omitzero"`
	// Offered is since when another machine with the memory of this one can know that this one gives
	// the block back: it finds a nonce that it did not write.
	Offered moment `json:"offered,omitzero"`
}

const recordsFile, recordsVersion = "blocks.json", 1

// records are all of a pool.
type records struct {
	Version int `json:"version"`
	// Instance is whose records these are.
	Instance string `json:"instance"`
	// Generation is random, and that of present.json as long as these are the last records. Empty:
	// they were written by a release without it.
	Generation string `json:"generation,omitempty"`
	// Boot is the one in which they were written.
	Boot string `json:"boot,omitempty"`
	// Verified is when the records were last compared with the store.
	Verified moment `json:"verified"`
	// Attempted is when a process without an agent last began to verify.
	Attempted moment `json:"attempted"`
	// Fence is for how long Verified is good, in nanoseconds.
	Fence int64 `json:"fence"`
	// Agreed is the configuration that the store had last. Nil: none is known.
	Agreed *ipam.PoolContent `json:"agreed,omitempty"`
	Blocks []Record          `json:"blocks"`
	// doubted: they are not the last that this host wrote.
	doubted bool
}

// errChanged is a record that another process has changed since it was read.
var errChanged = errors.New("the record of the block was changed by another process")

// ledger keeps the records of a pool on disk.
type ledger struct {
	machine   *machine
	pool      string
	addresses Addresses
	// dir has all files of the pool, and run what a boot ends.
	dir, run disk
}

// read reads the records, and doubts those that are not the last of this boot.
func (l *ledger) read(instance string) (*records, error) {
	r, err := l.readWritten(instance)
	if err != nil {
		return nil, err
	}
	present, err := l.isPresent(r)
	if !present {
		r.doubted, r.Verified = true, moment{} // they may be older than this boot
		r.close()
	}
	return r, err
}

// readSettled is read once a write that has not ended has.
func (l *ledger) readSettled(ctx context.Context, instance string) (*records, error) {
	unlock, err := l.addresses.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return l.read(instance)
}

// readWritten reads the records as they were written, whenever that was. Those of an earlier
// instance of this host are of no use, but what is in use stays in use: their blocks are lost
// until the store says otherwise.
func (l *ledger) readWritten(instance string) (*records, error) {
	r := &records{Version: recordsVersion, Instance: instance}
	err := readJSON(l.dir, recordsFile, recordsVersion, r)
	if err == nil {
		err = r.validate(l.pool)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: no address is given out; restore the file, or remove it when no allocation on this host has an address of the pool", l.dir.pathOf(recordsFile), err)
	}
	if r.Instance != instance {
		r.disown(instance)
	}
	return r, nil
}

func (r *records) validate(pool string) error {
	switch {
	case r.Version != recordsVersion:
		return fmt.Errorf("version is %d, want %d: it was written by another release", r.Version, recordsVersion)
	case r.Agreed != nil && r.Agreed.Pool != pool:
		return fmt.Errorf("agreed.pool is %q, want %s", r.Agreed.Pool, pool)
	}
	for i, b := range r.Blocks {
		switch {
		case !b.Block.IsValid() || b.Block != b.Block.Masked():
			return fmt.Errorf("blocks[%d].block is %q, want a prefix", i, b.Block)
		case !slices.Contains([]State{Claiming, Held, Releasing, Lost}, b.State):
			return fmt.Errorf("blocks[%d].state is %q, want %s, %s, %s or %s", i, b.State, Claiming, Held, Releasing, Lost)
		case r.find(b.Block) != i:
			return fmt.Errorf("blocks[%d].block is %s, which is there twice", i, b.Block)
		}
	}
	return nil
}

// disown turns the records of another instance into those of blocks that are lost.
func (r *records) disown(instance string) {
	r.Instance, r.Verified = instance, moment{}
	r.Blocks = slices.DeleteFunc(r.Blocks, func(b Record) bool { return b.State == Claiming || b.State == Releasing })
	for i := range r.Blocks {
		r.Blocks[i].State, r.Blocks[i].Index = Lost, 0
	}
}

// write makes records the last ones that this host knows.
func (l *ledger) write(r *records, boot string) error {
	r.Generation, r.Boot, r.doubted = l.machine.random(), boot, false
	slices.SortStableFunc(r.Blocks, func(a, b Record) int { return a.Block.Addr().Compare(b.Block.Addr()) }) // less code than SortFunc, for values as large as these
	if err := l.writePresent(r); err != nil {
		return err
	}
	return writeJSON(l.dir, recordsFile, r)
}

func (r *records) find(b ipam.Block) int {
	return slices.IndexFunc(r.Blocks, func(x Record) bool { return x.Block == b })
}

// edit changes the records of a host under the lease lock, and returns them.
func (l *ledger) edit(ctx context.Context, self ipam.Host, change func(r *records) error) (*records, error) {
	unlock, err := l.addresses.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	r, err := l.read(self.Instance)
	if err == nil {
		err = change(r)
	}
	if err != nil {
		return nil, err
	}
	return r, l.write(r, self.Boot)
}

// used tells whether a block has leases.
func (l *ledger) used(ctx context.Context, b ipam.Block) (bool, error) {
	unlock, err := l.addresses.Lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	leases, _, err := l.addresses.LastUse(b)
	return leases > 0, err
}

func (s *session) edit(ctx context.Context, change func(r *records) error) error {
	r, err := s.l.ledger.edit(ctx, s.host, change)
	if err == nil {
		s.records = r
	}
	return err
}

// replace puts a record in the place of one that still is as it was.
func (s *session) replace(ctx context.Context, was, now Record) error {
	return s.edit(ctx, func(r *records) error {
		i := r.find(was.Block)
		if i < 0 || r.Blocks[i] != was {
			return fmt.Errorf("%s: %w", was.Block, errChanged)
		}
		r.Blocks[i] = now
		return nil
	})
}

func (s *session) keep(ctx context.Context, was, now Record) error {
	if was == now {
		return nil
	}
	return s.replace(ctx, was, now)
}

// drop removes a record that still is as it was, and is not needed any more. Its claim, which the
// host gives up, is remembered before.
func (s *session) drop(ctx context.Context, was Record) error {
	s.view.Past = append(s.view.Past, past{s.path(was.Block), was.Claim})
	s.view.Past = s.view.Past[max(0, len(s.view.Past)-mostPast):]
	if err := s.view.write(); err != nil {
		return err
	}
	return s.edit(ctx, func(r *records) error {
		i := r.find(was.Block)
		if i < 0 || r.Blocks[i] != was {
			return fmt.Errorf("%s: %w", was.Block, errChanged)
		}
		r.Blocks = slices.Delete(r.Blocks, i, i+1)
		return s.l.Addresses.Forget(was.Block)
	})
}

// readJSON reads a file of at most the latest version into v, which stays as it is if there is none.
func readJSON(d disk, name string, latest int, v any) error { //nolint:unparam // each file has a version of its own
	data, err := d.read(name)
	if err != nil || data == nil {
		return err
	}
	return files.DecodeVersion(data, latest, v)
}

func writeJSON(d disk, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return d.write(name, append(data, '\n'))
}

// presentFile says, in a directory that a boot empties, which records are the last that this host
// wrote in this boot. A state directory that was restored from a backup has others.
const presentFile, presentVersion = "present.json", 1

type present struct {
	Version    int    `json:"version"`
	Boot       string `json:"boot"`
	Generation string `json:"generation"`
}

// errRestored is a state directory that is older than what this host knew.
var errRestored = errors.New("the state directory was restored from a backup meanwhile")

// isPresent tells whether records are the last that this host wrote. Those of the release that
// wrote no generation are, until this one has written some.
func (l *ledger) isPresent(r *records) (bool, error) {
	p := present{}
	err := readJSON(l.run, presentFile, presentVersion, &p)
	if errors.Is(err, files.ErrLater) {
		return false, fmt.Errorf("%s: %w: no address is given out in this boot", l.run.pathOf(presentFile), err)
	}
	return err == nil && p.Generation == r.Generation && (p.Generation == "" || p.Boot == r.Boot), nil
}

// writePresent makes records the last ones before they are written: those of before, which a process
// that is killed in between leaves, or a backup has, are verified again.
func (l *ledger) writePresent(r *records) error {
	return writeJSON(l.run, presentFile, present{presentVersion, r.Boot, r.Generation})
}
