// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/ipam"
)

// Options are what a Pool needs.
type Options struct {
	// Config is required.
	Config *ipam.Config
	// Open returns the store, and who this host is. It is required, and called when the store
	// is needed: not to add or remove addresses of blocks that the host has.
	Open func() (ipam.Store, ipam.Host, error)
	// Holder is asked whether an address or a block of another host can be taken over. Nil: it
	// cannot.
	Holder Holder
	// Probe asks the network whether another host has an address before it is given out. Nil:
	// it is not asked.
	Probe func(ctx context.Context, address netip.Addr) (taken bool, err error)
	// Grace is how long a node must be gone before others take what it had. 0: an hour.
	Grace time.Duration
	// Fence is for how long new addresses are given out without having verified that the
	// blocks are still this host's. 0: 20 h.
	Fence time.Duration
	// Now is the time. Nil: time.Now.
	Now func() time.Time
	// Logger is optional.
	Logger hclog.Logger
}

// Holder says what Nomad knows of those who hold addresses and blocks.
type Holder interface {
	// Ended returns since when an allocation is complete or failed, by Nomad's word. It is the
	// zero time if the allocation is anything else, lost and unknown included, or if Nomad does
	// not know it: its tasks may run.
	Ended(ctx context.Context, namespace, allocation string) (time.Time, error)
	// Gone returns whether Nomad does not know the node, and none of its allocations lives.
	Gone(ctx context.Context, nodeID string) (bool, error)
}

// Pool is a pool of addresses. It may be used concurrently, and by several processes.
type Pool struct {
	o Options
}

// New returns a pool. It does no I/O.
func New(o Options) *Pool { return &Pool{o: o} }

var errStub = errors.New("pools are not implemented")

// Add gives an attachment an address of each family of the pool, or those that it requests: all
// or none. An attachment that has addresses gets the same again.
func (p *Pool) Add(ctx context.Context, r ipam.Request) ([]ipam.Assigned, error) {
	return nil, errStub
}

// Del takes back the addresses of an attachment. It does not wait for the store, and it is no
// error if the attachment has none.
func (p *Pool) Del(ctx context.Context, owner ipam.Owner) error { return errStub }

// Check requires that an attachment has leases of exactly these addresses, and that this host
// may give them out.
func (p *Pool) Check(ctx context.Context, owner ipam.Owner, addresses []netip.Prefix) error {
	return errStub
}

// GC takes back the addresses of all attachments but the valid ones.
func (p *Pool) GC(ctx context.Context, valid []ipam.Owner) error { return errStub }

// Status requires that an address can be given out: that one is free, or that the store answers.
func (p *Pool) Status(ctx context.Context) error { return errStub }

// Maintained is what Maintain did.
type Maintained struct {
	// Claimed and Released are blocks of this host.
	Claimed, Released []ipam.Block
}

// Maintain does what is not for attachments to wait for: it resolves what earlier processes
// left undone, claims a block when less than 25 % of a family is free, releases blocks that are
// idle, and gives back reserved addresses. Not concurrently with Verify.
func (p *Pool) Maintain(ctx context.Context) (Maintained, error) { return Maintained{}, errStub }

// Verified is what Verify found.
type Verified struct {
	// Index is for the next call.
	Index uint64
	// Lost are blocks, and Addresses are reserved addresses, that the store says another host
	// has: they may be in use twice.
	Lost      []ipam.Block
	Addresses []netip.Addr
}

// Verify compares what this host has with the store, and creates again what is missing there.
// With the index of an earlier call it first waits for a change, for at most 10 s.
func (p *Pool) Verify(ctx context.Context, after uint64) (Verified, error) {
	return Verified{}, errStub
}

// Reclaim takes back what nodes had that are gone, by Options.Holder, for Options.Grace.
func (p *Pool) Reclaim(ctx context.Context) ([]ipam.Block, []netip.Addr, error) {
	return nil, nil, errStub
}

// ReleaseNode takes back what a node had, by an operator's word that it is gone.
func (p *Pool) ReleaseNode(ctx context.Context, nodeID string) ([]ipam.Block, []netip.Addr, error) {
	return nil, nil, errStub
}

// Adopt takes back what an earlier state directory of this node had, if inUse says twice that no
// namespace of the host has an address of the prefix.
func (p *Pool) Adopt(ctx context.Context, inUse func(netip.Prefix) (bool, error)) ([]ipam.Block, []netip.Addr, error) {
	return nil, nil, errStub
}

// Reserve keeps a reserved address for a job before an allocation has it.
func (p *Pool) Reserve(ctx context.Context, address netip.Addr, job ipam.Job) error { return errStub }

// Unreserve ends that a reserved address is kept for a job.
func (p *Pool) Unreserve(ctx context.Context, address netip.Addr) error { return errStub }
