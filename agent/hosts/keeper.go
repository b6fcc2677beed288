// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hosts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/wake"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/networkstatus"
	"github.com/allocnet/allocnet/state"
)

const (
	// leastPause is the time between two looks at whether something has changed, and failedPause the one after a failure, or until files that
	// could not be written are tried again: what a task does in its directory keeps no other one from its names.
	leastPause, failedPause = time.Second, 10 * time.Second
	// rest is how many times as long as the last round took the next one waits, and bytesPerSecond what rounds write at most on average: all
	// files change with each attachment of a network, and those of 1,000 allocations have 45 MB.
	rest, bytesPerSecond = 20, 4 << 20
)

// Config is what a Keeper needs. All but Logger is required.
type Config struct {
	// AllocDir returns what has the directories of Nomad's allocations. Empty: it is not known, and there are no files.
	AllocDir func(context.Context) (string, error)
	// Version returns a text that is another one after each change of Allocations, Remotes and Indexes.
	Version func() (string, error)
	// Allocations are those of this host.
	Allocations func(context.Context) iter.Seq2[*hook.Allocation, error]
	// Remotes are the attachments on other hosts that are known.
	Remotes func() ([]isolation.Member, error)
	// Indexes are the numbers of allocations in their groups, by ID. Nil: they are not known yet, and what files say stays.
	Indexes func() map[string]int
	// Logger gets a line for each failure that is new. Nil: none.
	Logger hclog.Logger
}

// Keeper keeps the files of this host's allocations.
type Keeper struct {
	c Config
	// version is that of the last round.
	version string
	// allocDir is that of the last round.
	allocDir string
	// members are the allocations as they were read last, by ID.
	members map[string]member
	// written has the sums of files, by ID.
	written map[string][sha256.Size]byte
	// told has the sums of the files with the attachments of allocations, by ID.
	told map[string][sha256.Size]byte
	// bytes is what the last look has written, or tried to.
	bytes int
	// unwritten is why the last round has not written or removed files, and tried when it was. Nil: it has all.
	unwritten error
	tried     time.Time
	// failure is the last one.
	failure string
}

// New returns a keeper. It reads and writes nothing.
func New(c Config) *Keeper {
	c.Logger = cmp.Or(c.Logger, hclog.NewNullLogger())
	return &Keeper{c: c, members: map[string]member{}, written: map[string][sha256.Size]byte{}, told: map[string][sha256.Size]byte{}}
}

// Run keeps the files until ctx ends. They stay.
func (k *Keeper) Run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		err := k.look(ctx)
		if ctx.Err() != nil {
			return
		}
		k.log(errors.Join(err, k.unwritten))
		wake.After(ctx, pauseAfter(time.Since(began), k.bytes, err))
	}
}

// pauseAfter returns the time between a look that took a time and wrote bytes, and the next one.
func pauseAfter(took time.Duration, bytes int, err error) time.Duration {
	pause := max(leastPause, rest*took, time.Duration(bytes)*time.Second/bytesPerSecond)
	if err != nil {
		pause = max(pause, failedPause)
	}
	return pause
}

func (k *Keeper) log(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != k.failure {
		k.c.Logger.Warn("not all allocations have the names of the others of their networks", "error", err)
	}
	k.failure = text
}

// look writes files if something has changed, or some could not be written. What is the cause of a failure is looked at again.
func (k *Keeper) look(ctx context.Context) error {
	k.bytes = 0
	version, err := k.c.Version()
	if err != nil {
		return err
	}
	indexes := k.c.Indexes()
	if indexes == nil {
		return nil
	}
	isToTry := k.unwritten != nil && time.Since(k.tried) >= failedPause
	if version == k.version && !isToTry {
		return nil
	}
	k.version = "" // until all is done
	if k.allocDir, err = k.c.AllocDir(ctx); err != nil || k.allocDir == "" {
		return err
	}
	if err := k.round(ctx, indexes); err != nil {
		return err
	}
	k.version = version
	return nil
}

// round writes the files that are other ones than before. The error is not about files.
func (k *Keeper) round(ctx context.Context, indexes map[string]int) error {
	if err := k.read(ctx, indexes); err != nil {
		return err
	}
	names, err := k.names()
	k.unwritten, k.tried = nil, time.Now()
	contents := map[string][]byte{}
	for _, id := range slices.Sorted(maps.Keys(k.members)) {
		m := k.members[id]
		file, ok := contents[m.group()]
		if !ok {
			file = m.file(names)
			contents[m.group()] = file
		}
		k.unwritten = errors.Join(k.unwritten, k.write(id, file), k.tell(id, m))
	}
	maps.DeleteFunc(k.told, func(id string, _ [sha256.Size]byte) bool { _, ok := k.members[id]; return !ok })
	for _, id := range slices.Sorted(maps.Keys(k.written)) {
		if _, ok := k.members[id]; !ok {
			k.unwritten = errors.Join(k.unwritten, k.remove(id))
		}
	}
	return err
}

// read reads the allocations of jobs. One whose record cannot be read stays what it was: it may live.
func (k *Keeper) read(ctx context.Context, indexes map[string]int) error {
	members := map[string]member{}
	for a, err := range k.c.Allocations(ctx) {
		if unreadable, ok := errors.AsType[*state.UnreadableError](err); ok {
			if m, ok := k.members[unreadable.ID]; ok {
				members[unreadable.ID] = m
			}
			continue
		}
		if err != nil {
			return err
		}
		if a.Identity.Job != "" {
			index, ok := indexes[a.ID]
			m := memberOf(a, index, ok)
			if err := m.tell(a); err != nil {
				return err
			}
			members[a.ID] = m
		}
	}
	k.members = members
	return nil
}

// names returns those of all attachments that are known, also with an error.
func (k *Keeper) names() (names []name, err error) {
	for _, m := range k.members {
		names = append(names, m.names...)
	}
	remotes, err := k.c.Remotes()
	for _, m := range remotes {
		names = append(names, namesOf(m)...)
	}
	return names, err
}

// write writes the file of an allocation unless it has it. One without a directory is none of the client's, or ends.
func (k *Keeper) write(id string, file []byte) error {
	sum := sha256.Sum256(file)
	if k.written[id] == sum {
		return nil
	}
	err := k.within(id, func(shared *os.Root) error { return networkstatus.Replace(shared, networkstatus.HostsFile, file) })
	k.bytes += len(file)
	if err == nil {
		k.written[id] = sum
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// tell replaces the files with the attachments of an allocation, whose addresses servers and routers change. What has attached it has
// written them first, or it has none.
func (k *Keeper) tell(id string, m member) error {
	if m.told == nil || k.told[id] == m.sum {
		return nil
	}
	err := k.within(id, func(shared *os.Root) (err error) {
		if _, err := shared.Lstat(networkstatus.File); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(m.told)) {
			k.bytes += len(m.told[name])
			if failed := networkstatus.Update(shared, name, m.told[name]); !errors.Is(failed, fs.ErrNotExist) { // else a task has removed it
				err = errors.Join(err, failed)
			}
		}
		return err
	})
	if err == nil {
		k.told[id] = m.sum
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (k *Keeper) remove(id string) error {
	err := k.within(id, func(shared *os.Root) error { return files.ClearFile(shared, networkstatus.HostsFile) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("allocation %s: remove %s: %w", id, networkstatus.HostsFile, err)
	}
	delete(k.written, id)
	return nil
}

// within opens the shared directory of an allocation.
func (k *Keeper) within(id string, do func(shared *os.Root) error) error {
	dir, err := networkstatus.SharedDir(k.allocDir, id)
	if err != nil {
		return err
	}
	shared, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer shared.Close() //nolint:errcheck // a directory
	return do(shared)
}
