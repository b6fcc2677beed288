// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package peers follows which hosts have the blocks of a pool, and where these hosts are reached:
// what a host needs to route to the others.
//
// The contents of the store were written by other hosts, and are not trusted: what cannot be a
// block of the pool is returned in a list of its own, with the reason. Whether an address is that of a node, and
// whether a route to it is safe, is for others to decide.
//
// Reads may be old, because nothing is written to the store that depends on them.
package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/follow"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/wake"
)

// pause is between the beginnings of two listings: what changes meanwhile is read at once.
const pause = 500 * time.Millisecond

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
	// listed is when the last listing began.
	listed  time.Time
	entries *follow.Entries[entry]
}

// entry is what is kept of a content, which another host wrote and which may be huge.
type entry struct {
	// owner is the owner's instance. Empty: the content is of no use.
	owner string
	block ipam.Block
	// remote is what it is to other hosts than its owner, unless there is an error.
	remote Remote
	// err is why packets cannot be sent to the owner.
	err error
}

// New returns the blocks of a pool. It reads nothing.
func New(o Options) *Peers {
	o.Logger = cmp.Or(o.Logger, hclog.NewNullLogger())
	p := &Peers{o: o}
	p.entries = follow.New(ipam.BlocksPrefix(o.Config.Pool), func(path string) bool { return p.checkPath(path) == nil }, p.decode)
	return p
}

// Next waits until blocks of the pool change in the store, or for a while (at most 10 s), and
// returns all; the first time it returns at once. Changes in quick succession are returned
// together. After an error, what it returned before is still the best that is known.
func (p *Peers) Next(ctx context.Context) (Blocks, error) {
	store, host, err := p.o.Open()
	if err == nil {
		err = p.list(ctx, store)
	}
	if err != nil {
		p.entries.Doubt()
		return Blocks{}, err
	}
	if err := p.entries.Read(ctx, store, p.listed); err != nil {
		return Blocks{}, err
	}
	return p.blocks(host), nil
}

// list lists the blocks, once it is their turn, and notices a store that was restored.
func (p *Peers) list(ctx context.Context, store ipam.Store) error {
	if !wake.After(ctx, time.Until(p.listed.Add(pause))) {
		return context.Cause(ctx)
	}
	p.listed = time.Now()
	isRestored, err := p.entries.List(ctx, store)
	if isRestored {
		p.o.Logger.Warn("the store was restored from a snapshot: all blocks are read again", "pool", p.o.Config.Pool)
	}
	return err
}

// checkPath requires the path of a block of the pool: no other one is read.
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

func (p *Peers) decode(got ipam.Entry) entry {
	c, err := ipam.DecodeBlock(got.Content, p.o.Config)
	if err == nil && ipam.BlockPath(p.o.Config.Pool, c.Block) != got.Path {
		err = fmt.Errorf("the content is that of the block %s", c.Block)
	}
	if err != nil {
		return entry{err: err}
	}
	e := entry{owner: c.Host.Instance, block: c.Block}
	if e.err = errors.Join(checkHost(c.Host), c.Endpoint.Validate()); e.err == nil {
		e.remote = Remote{c.Block, c.Host, c.Endpoint, got.Index}
	}
	return e
}

// mostHostText limits each text of a host, in bytes: all of them are kept for each block.
const mostHostText = 256

// checkHost requires what may be kept, asked for and logged.
func checkHost(h ipam.Host) error {
	for _, text := range []struct{ name, value string }{{"nodeID", h.NodeID}, {"nodeName", h.NodeName}, {"machineID", h.MachineID}, {"boot", h.Boot}} {
		if len(text.value) > mostHostText {
			return fmt.Errorf("the content has a %s of %d bytes: want at most %d", text.name, len(text.value), mostHostText)
		}
	}
	return nil
}

// blocks returns what the entries are to a host.
func (p *Peers) blocks(host ipam.Host) Blocks {
	var b Blocks
	for path := range p.entries.Listed {
		known, isRead := p.entries.Known[path]
		e := known.Content
		if err := p.checkPath(path); err != nil {
			e.err = err
		} else if !isRead { // it is gone since it was listed
			continue
		}
		switch {
		case e.owner != "" && e.owner == host.Instance:
			b.Own = append(b.Own, e.block)
		case e.err != nil:
			b.Invalid = append(b.Invalid, Invalid{path, e.err})
		default:
			b.Remote = append(b.Remote, e.remote)
		}
	}
	slices.SortFunc(b.Own, ipam.Block.Compare)
	slices.SortFunc(b.Remote, func(x, y Remote) int { return x.Block.Compare(y.Block) })
	slices.SortFunc(b.Invalid, func(x, y Invalid) int { return strings.Compare(x.Path, y.Path) })
	return b
}

// Blocks are those of a pool. No two of Own and Remote have an address in common.
type Blocks struct {
	// Own are those of this host's instance, sorted.
	Own []ipam.Block
	// Remote are those of other hosts, sorted by block.
	Remote []Remote
	// Invalid are what is no block that packets can be sent to, sorted by path.
	Invalid []Invalid
}

// Remote is a block of another host.
type Remote struct {
	Block ipam.Block
	Host  ipam.Host
	// Endpoint is valid, and what the host says: it may be that of another one.
	Endpoint ipam.Endpoint
	// Index is that of the store's content.
	Index uint64
}

// Invalid is a path that is no block of another host, and why.
type Invalid struct {
	Path string
	Err  error
}
