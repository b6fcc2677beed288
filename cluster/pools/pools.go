// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package pools keeps the pools of allocnet-ipam of a host: it verifies the ownership of the
// host's blocks, claims blocks before the present ones are full, releases and reclaims others,
// and reports what keeps a pool from assigning addresses.
//
// The plugin needs none of this to assign an address from a block that the host holds. Each
// step has a deadline, and no step holds a lock that attaching from such a block waits for.
package pools

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	"github.com/allocnet/allocnet/internal/wake"
)

// DefaultFence is the time without verification after which no new address is assigned.
const DefaultFence = 20 * time.Hour

// Settings are those that a reload can change.
type Settings struct {
	// Store names the store: a pool is opened again when it changes.
	Store string
	// KeepDead leaves the blocks of nodes that are gone alone.
	KeepDead bool
	// Grace is the time for which a node has to be gone before its blocks are reclaimed. 0: one
	// hour.
	Grace time.Duration
	// Fence is the time without verification after which no new address is assigned. 0: 20
	// hours.
	Fence time.Duration
}

func (s Settings) withDefaults() Settings {
	s.Grace, s.Fence = cmp.Or(s.Grace, time.Hour), cmp.Or(s.Fence, DefaultFence)
	return s
}

// Config configures Pools. All fields but Changed are required.
type Config struct {
	// Find returns the pools of the host's networks, with the problem of each that cannot
	// be used, by name.
	Find func() (found []*ipam.Config, broken map[string]error, err error)
	// Open opens a pool.
	Open func(*ipam.Config, Settings) (Pool, error)
	// InUse tells whether a namespace of the host has an address of a prefix.
	InUse func(netip.Prefix) (bool, error)
	// Used returns the addresses in the namespaces of the host.
	Used func() ([]netip.Addr, error)
	// Changed is called after the kept pools may have changed. Nil: nothing is.
	Changed func()
	// Problem is called when a problem of a pool has begun, and when it has ended.
	Problem func(pool string, p Problem, ended bool)
	// Logger gets a line for each failure that is new.
	Logger hclog.Logger
}

// Pools keeps the pools of a host.
type Pools struct {
	config Config
	kicks  wake.Signal
	// reporters are those of the kept pools. Only Run uses them.
	reporters map[string]*reporter

	mu       sync.Mutex // guards all below
	settings Settings
	keepers  map[string]*keeper
	// broken are the pools that cannot be used. What has no name is under "".
	broken map[string]error
	// found is whether the networks were read.
	found bool
}

// New returns the keeper of the pools; Run starts it.
func New(c Config, s Settings) *Pools {
	return &Pools{config: c, settings: s.withDefaults(), kicks: wake.NewSignal(), keepers: map[string]*keeper{}, reporters: map[string]*reporter{}, broken: map[string]error{}}
}

// Configure changes the settings. It may be called at any time.
func (p *Pools) Configure(s Settings) {
	p.mu.Lock()
	p.settings = s.withDefaults()
	p.mu.Unlock()
	p.Kick()
}

// Kick has the networks read again. It does not wait.
func (p *Pools) Kick() { p.kicks.Send() }

// findPause is the time between two readings of the networks.
const findPause = 30 * time.Second

// Run keeps the pools of the present networks until ctx ends.
func (p *Pools) Run(ctx context.Context) {
	defer p.endAll()
	for goesOn := true; goesOn; goesOn = p.kicks.Await(ctx, findPause) {
		p.update(ctx)
		if p.config.Changed != nil {
			p.config.Changed()
		}
	}
}

// update starts and ends keepers. One whose pool or settings have changed is replaced.
func (p *Pools) update(ctx context.Context) {
	found, broken, err := p.config.Find()
	if err != nil {
		p.note(map[string]error{"": err})
		return // the present pools are as good as they were
	}
	present := map[string]bool{}
	broken = maps.Clone(broken) // Status may be reading the last one
	if broken == nil {
		broken = map[string]error{}
	}
	for _, c := range found {
		if err := p.keep(ctx, c); err != nil {
			broken[c.Pool] = err
			continue
		}
		present[c.Pool] = true
	}
	for _, k := range p.remove(func(name string, _ *keeper) bool { return !present[name] }) {
		k.end()
		if broken[k.config.Pool] == nil { // a problem of one that is broken has not ended
			k.reporter.end()
			delete(p.reporters, k.config.Pool)
		}
		k.log.Info("the pool is not kept any more")
	}
	p.note(broken)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found = true
}

// keep starts a keeper unless there is one with this configuration.
func (p *Pools) keep(ctx context.Context, c *ipam.Config) error {
	p.mu.Lock()
	settings, present := p.settings, p.keepers[c.Pool]
	p.mu.Unlock()
	if present != nil && present.settings == settings && reflect.DeepEqual(present.config, c) {
		return nil
	}
	opened, err := p.config.Open(c, settings)
	if err != nil {
		return err
	}
	if present != nil {
		present.end()
	}
	k := &keeper{pool: opened, config: c, settings: settings, inUse: p.config.InUse, used: p.config.Used, reporter: p.reporter(c.Pool), log: p.config.Logger.With("pool", c.Pool)}
	k.start(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keepers[c.Pool] = k
	return nil
}

func (p *Pools) reporter(name string) *reporter {
	if p.reporters[name] == nil {
		p.reporters[name] = newReporter(func(problem Problem, ended bool) { p.config.Problem(name, problem, ended) })
	}
	return p.reporters[name]
}

func (p *Pools) remove(which func(string, *keeper) bool) []*keeper {
	p.mu.Lock()
	defer p.mu.Unlock()
	var removed []*keeper
	maps.DeleteFunc(p.keepers, func(name string, k *keeper) bool {
		if which(name, k) {
			removed = append(removed, k)
			return true
		}
		return false
	})
	return removed
}

func (p *Pools) endAll() {
	for _, k := range p.remove(func(string, *keeper) bool { return true }) {
		k.end()
	}
}

// note replaces the problems of pools that cannot be used, and logs the new ones.
func (p *Pools) note(broken map[string]error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, err := range broken {
		if before := p.broken[name]; before == nil || before.Error() != err.Error() {
			p.config.Logger.Error("a pool of a network is not kept", "pool", name, "error", err)
		}
	}
	p.broken = broken
}

// Kept is a pool that is kept.
type Kept struct {
	Config *ipam.Config
	Pool   Pool
}

// Kept returns the pools that are kept. It is complete if networks use no other pool.
func (p *Pools) Kept() (kept []Kept, complete bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.keepers {
		kept = append(kept, Kept{k.config, k.pool})
	}
	return kept, p.found && len(p.broken) == 0
}

// Status is the state of a pool.
type Status struct {
	Pool  string
	Usage pool.Usage
	// Fence is the time without verification after which no new address is assigned.
	Fence    time.Duration
	Problems []Problem
}

// Status returns the state of each pool, by name.
func (p *Pools) Status(ctx context.Context) []Status {
	p.mu.Lock()
	keepers, broken := maps.Clone(p.keepers), maps.Clone(p.broken)
	p.mu.Unlock()
	now := time.Now()
	var all []Status
	for _, k := range keepers {
		s := k.status(ctx, now)
		if err := broken[s.Pool]; err != nil { // of another network with the pool
			s.Problems = append(s.Problems, Problem{kindOf(err), err.Error()})
			delete(broken, s.Pool)
		}
		all = append(all, s)
	}
	for name, err := range broken {
		all = append(all, Status{Pool: name, Problems: []Problem{{kindOf(err), err.Error()}}})
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Pool, b.Pool) })
	return all
}

// NotReady lists why pools cannot assign addresses, or soon cannot. A store that does not
// answer is no reason while there are free addresses.
func (p *Pools) NotReady(ctx context.Context) []string {
	var reasons []string
	for _, s := range p.Status(ctx) {
		for _, problem := range s.Problems {
			if problem.Kind != Unavailable {
				reasons = append(reasons, "pool "+s.Pool+": "+problem.Text)
			}
		}
	}
	return reasons
}

// Free returns for each pool that can assign addresses how many attachments it has addresses
// for now. None can be assigned after the fence.
func (p *Pools) Free(ctx context.Context) map[string]int {
	free := map[string]int{}
	for _, s := range p.Status(ctx) {
		for i, f := range s.Usage.Families {
			if before, ok := free[s.Pool]; i == 0 || ok && f.Free < before {
				free[s.Pool] = f.Free
			}
		}
		if s.Usage.Fenced {
			free[s.Pool] = 0
		}
	}
	return free
}
