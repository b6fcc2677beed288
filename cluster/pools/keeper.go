// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pools

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	"github.com/allocnet/allocnet/internal/texts"
)

// Pool is a pool of this host; see package pool. Its methods stop at the deadline of their
// context.
type Pool interface {
	Verify(ctx context.Context, after uint64) (pool.Verified, error)
	Maintain(ctx context.Context) (pool.Maintained, error)
	Adopt(ctx context.Context, inUse func(netip.Prefix) (bool, error)) ([]ipam.Block, []netip.Addr, error)
	Adopting() (bool, error)
	Recover(ctx context.Context, always bool, used func() ([]netip.Addr, error)) ([]ipam.Block, error)
	Reclaim(ctx context.Context) ([]ipam.Block, []netip.Addr, error)
	Usage(ctx context.Context) (pool.Usage, error)
}

// Pauses and limits of the steps. A run of a step that changes the store may delay a plugin
// that has to claim a block; the limits bound that.
const (
	verifyPause   = time.Second // of which the store waits for a change for 10 s
	verifyLimit   = 30 * time.Second
	recoverPause  = 5 * time.Second
	recoverLimit  = 10 * time.Second
	maintainPause = 5 * time.Second
	maintainLimit = 10 * time.Second
	adoptPause    = 2 * time.Minute
	adoptAgain    = 45 * time.Second // a block is adopted 40 s after it was found unused
	adoptLimit    = 20 * time.Second
	reclaimPause  = 10 * time.Minute
	reclaimLimit  = time.Minute
	usageLimit    = 5 * time.Second
	reportPause   = 5 * time.Second
)

type keeper struct {
	pool     Pool
	config   *ipam.Config
	settings Settings
	inUse    func(netip.Prefix) (bool, error)
	used     func() ([]netip.Addr, error)
	reporter *reporter
	log      hclog.Logger
	stop     context.CancelFunc
	stopped  chan struct{}

	mu     sync.Mutex // guards all below
	failed failures
	// lost are reserved addresses that another host has.
	lost []netip.Addr
}

func (k *keeper) start(ctx context.Context) {
	ctx, k.stop = context.WithCancel(ctx)
	k.stopped = make(chan struct{})
	k.failed = failures{k.log, map[string]error{}}
	go func() {
		defer close(k.stopped)
		repeat(ctx, k.steps(), k.note)
	}()
}

func (k *keeper) steps() []*step {
	adopt := &step{name: "adopt", pause: adoptPause, limit: adoptLimit}
	adopt.run = func(ctx context.Context) error {
		adopting, err := k.adopt(ctx)
		adopt.pause = adoptPause
		if adopting {
			adopt.pause = adoptAgain
		}
		return err
	}
	steps := []*step{
		{name: "verify", pause: verifyPause, limit: verifyLimit, run: k.verifier()},
		{name: "recover", pause: recoverPause, limit: recoverLimit, run: k.recoverer()},
		{name: "maintain", pause: maintainPause, limit: maintainLimit, run: k.maintain},
		adopt,
		{name: "report", pause: reportPause, limit: usageLimit, run: func(ctx context.Context) error {
			k.reporter.look(k.status(ctx, time.Now()).Problems)
			return nil
		}},
	}
	if !k.settings.KeepDead {
		steps = append(steps, &step{name: "reclaim", pause: min(reclaimPause, max(k.settings.Grace/4, time.Second)), limit: reclaimLimit, run: k.reclaim})
	}
	return steps
}

// verifier returns the step that waits for changes of the store.
func (k *keeper) verifier() func(context.Context) error {
	var index uint64
	return func(ctx context.Context) error {
		verified, err := k.pool.Verify(ctx, index)
		if err != nil {
			index = 0
			return err
		}
		index = verified.Index
		k.mu.Lock()
		defer k.mu.Unlock()
		k.lost = verified.Addresses
		return nil
	}
}

// recoverer returns the step that asks the namespaces what else has no record. The first run that
// succeeds always does: the agent does not know what happened before it started. A store in
// files is lost only together with the directory that the operator has removed.
func (k *keeper) recoverer() func(context.Context) error {
	always := k.settings.Store != "file"
	return func(ctx context.Context) error {
		blocks, err := k.pool.Recover(ctx, always, k.used)
		always = always && err != nil
		k.tell("closed blocks of which namespaces of this host have addresses", blocks, nil)
		return err
	}
}

func (k *keeper) maintain(ctx context.Context) error {
	done, err := k.pool.Maintain(ctx)
	k.tell("claimed blocks", done.Claimed, nil)
	k.tell("released blocks", done.Released, nil)
	return err
}

func (k *keeper) adopt(ctx context.Context) (bool, error) {
	blocks, addresses, err := k.pool.Adopt(ctx, k.inUse)
	k.tell("adopted what an earlier state directory of this host had", blocks, addresses)
	adopting, errRead := k.pool.Adopting()
	return adopting, errors.Join(err, errRead)
}

func (k *keeper) reclaim(ctx context.Context) error {
	blocks, addresses, err := k.pool.Reclaim(ctx)
	k.tell("reclaimed what nodes had that are gone", blocks, addresses)
	return err
}

func (k *keeper) tell(what string, blocks []ipam.Block, addresses []netip.Addr) {
	if len(blocks)+len(addresses) > 0 {
		k.log.Info(what, "blocks", texts.Join(blocks, " "), "addresses", texts.Join(addresses, " "))
	}
}

func (k *keeper) note(step string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failed.note(step, err)
}

// end stops the steps, and waits for the one in flight.
func (k *keeper) end() {
	k.stop()
	<-k.stopped
}

func (k *keeper) status(ctx context.Context, now time.Time) Status {
	ctx, stop := context.WithTimeout(ctx, usageLimit)
	defer stop()
	usage, err := k.pool.Usage(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	var errs []error
	for _, name := range []string{"verify", "recover", "maintain", "adopt", "reclaim"} {
		errs = append(errs, k.failed.last[name])
	}
	return Status{
		Pool: k.config.Pool, Usage: usage, Fence: k.settings.Fence,
		Problems: problems(usage, k.lost, append(errs, err), k.settings.Fence, now),
	}
}
