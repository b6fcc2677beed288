// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package peers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/ipam"
)

const (
	// pause is between the beginnings of two listings: what changes meanwhile is read at once.
	pause = 500 * time.Millisecond
	// mostReads is how many contents are read at a time.
	mostReads = 8
)

// Options are what Peers need.
type Options struct {
	// Config is that of the pool. It is required.
	Config *ipam.Config
	// Open returns the store, and who this host is in it. It is required, and called by each
	// Next.
	Open func() (ipam.Store, ipam.Host, error)
	// Logger reports a store that was restored. Nil: none.
	Logger hclog.Logger
}

// Peers follow the blocks of one pool. They are not for concurrent use.
type Peers struct {
	o Options
	// index is that of the last listing whose contents were all read. 0: there is none.
	index uint64
	// listed is when the last listing began.
	listed time.Time
	// entries are what was read, by path.
	entries map[string]entry
}

// entry is what was read at a path.
type entry struct {
	index   uint64
	content ipam.BlockContent
	// err is why the content is of no use.
	err error
}

// New returns the blocks of a pool. It reads nothing.
func New(o Options) *Peers {
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	return &Peers{o: o, entries: map[string]entry{}}
}

// Next waits until blocks of the pool change in the store, or for a while (at most 10 s), and
// returns all; the first time it returns at once. Changes in quick succession are returned
// together. After an error, what it returned before is still the best that is known.
func (p *Peers) Next(ctx context.Context) (Blocks, error) {
	store, host, err := p.o.Open()
	if err == nil {
		err = p.waitForTurn(ctx)
	}
	if err != nil {
		return Blocks{}, err
	}
	listing, err := store.List(ctx, ipam.BlocksPrefix(p.o.Config.Pool), p.index)
	if err != nil {
		return Blocks{}, err
	}
	if listing.Index < p.index {
		p.o.Logger.Warn("the store was restored from a snapshot: all blocks are read again", "pool", p.o.Config.Pool)
		p.index, p.entries = 0, map[string]entry{}
	}
	if err := p.read(ctx, store, listing.Entries); err != nil {
		return Blocks{}, err
	}
	p.index = listing.Index
	return p.blocks(host), nil
}

// waitForTurn waits until another listing may begin.
func (p *Peers) waitForTurn(ctx context.Context) error {
	timer := time.NewTimer(time.Until(p.listed.Add(pause)))
	defer timer.Stop()
	select {
	case <-timer.C:
		p.listed = time.Now()
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// read makes the entries those of a listing. What was read before an error stays.
func (p *Peers) read(ctx context.Context, store ipam.Store, listed []ipam.Entry) error {
	next := make(map[string]entry, len(listed))
	var changed []string
	for _, e := range listed {
		known, ok := p.entries[e.Path]
		switch {
		case ok && known.index == e.Index:
			next[e.Path] = known
		case p.checkPath(e.Path) != nil:
			next[e.Path] = entry{index: e.Index, err: p.checkPath(e.Path)}
		default:
			changed = append(changed, e.Path)
		}
	}
	var mu sync.Mutex // guards next and errs
	var errs []error
	var wait sync.WaitGroup
	slots := make(chan struct{}, mostReads)
	for _, path := range changed {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			got, err := store.Get(ctx, path)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				next[path] = p.decode(got)
			case !errors.Is(err, ipam.ErrNotFound): // it was released since
				errs = append(errs, err)
			}
		})
	}
	wait.Wait()
	p.entries = next
	return errors.Join(errs...)
}

// checkPath requires the path of a block of the pool.
func (p *Peers) checkPath(path string) error {
	parsed, err := ipam.ParsePath(path)
	if err != nil {
		return err
	}
	if _, ok := p.o.Config.Slots(ipam.FamilyOf(parsed.Block.Addr())).Index(parsed.Block); !ok {
		return fmt.Errorf("%s is no block of the pool %s as this host has it", parsed.Block, p.o.Config.Pool)
	}
	return nil
}

// decode reads a content.
func (p *Peers) decode(got ipam.Entry) entry {
	content, err := ipam.DecodeBlock(got.Content, p.o.Config)
	if err == nil && ipam.BlockPath(p.o.Config.Pool, content.Block) != got.Path {
		err = fmt.Errorf("the content is that of the block %s", content.Block)
	}
	return entry{got.Index, content, err}
}

// blocks returns what the entries are to a host.
func (p *Peers) blocks(host ipam.Host) Blocks {
	var b Blocks
	for path, e := range p.entries {
		if e.err == nil && e.content.Host.Instance == host.Instance {
			b.Own = append(b.Own, e.content.Block)
			continue
		}
		err := e.err
		if err == nil {
			err = e.content.Endpoint.Validate()
		}
		if err != nil {
			b.Invalid = append(b.Invalid, Invalid{path, err})
			continue
		}
		b.Remote = append(b.Remote, Remote{e.content.Block, e.content.Host, e.content.Endpoint, e.index})
	}
	b.sort()
	return b
}
