// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
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
	"github.com/allocnet/allocnet/cluster/ipam/peers"
	"github.com/allocnet/allocnet/cluster/route"
	"github.com/allocnet/allocnet/internal/echo"
	"github.com/allocnet/allocnet/internal/wake"
)

// Pool is what is needed of a pool that the host has; see package pool.
type Pool interface {
	SetEndpoint(ctx context.Context, e ipam.Endpoint) error
}

// Peers are the blocks of a pool; see package peers.
type Peers interface {
	Next(ctx context.Context) (peers.Blocks, error)
}

// Table has the kernel's routes; see package route.
type Table interface {
	Device(p route.Pool, local ipam.Endpoint) (mac string, mtu int, err error)
	Apply(p route.Pool, own []netip.Prefix, targets []route.Target) (route.Report, error)
	Remove(p route.Pool) error
	Pools() ([]route.Pool, error)
	Changes(ctx context.Context) (<-chan []string, error)
}

// Kept is a pool that networks of the host use.
type Kept struct {
	Config *ipam.Config
	Pool   Pool
}

// Settings are those that a reload can change.
type Settings struct {
	// Address is this host's. Not valid: the one that Nomad has of its node.
	Address netip.Addr
	// NodeNetworks are where the addresses of nodes may be that Nomad has another address of.
	// Nil: none.
	NodeNetworks []netip.Prefix
	// Accept is whether the host's filters are made to let packets of the pools through. False: what
	// drops them is reported.
	Accept bool
}

// Config configures Span. All fields but Filter, Interfaces, WatchFilter and Observer are required.
type Config struct {
	// Kept returns the pools that networks of the host use. If it is not complete, there may
	// be more.
	Kept func() (kept []Kept, complete bool)
	// Open returns the blocks of a pool, and what Nomad knows of their hosts.
	Open func(*ipam.Config) (Peers, Nomad)
	// Table opens the routes of the host. If they are not needed it returns nil unless an
	// earlier agent has left some.
	Table func(needed bool) (Table, error)
	// InUse tells whether a namespace of the host has an address of a prefix.
	InUse func(netip.Prefix) (bool, error)
	// LinkLocal returns the link-local IPv6 address of the interface that has an address; not
	// valid if it has none. It is an error if no interface has the address.
	LinkLocal func(netip.Addr) (netip.Addr, error)
	// Ping sends an echo request, and returns how long the reply took; see package echo.
	Ping func(context.Context, echo.Request) (time.Duration, error)
	// Filter makes the host's filters what they should be, and returns what drops packets
	// nevertheless. Nil: it is not looked for.
	Filter func(context.Context, Filtering) (Obstacles, error)
	// WatchFilter tells of changes of the filters until ctx ends, or it fails. Nil: Filter is called each
	// minute only.
	WatchFilter func(ctx context.Context, changed func()) error
	// Interfaces are those of pools that Filter has to know. Nil: none.
	Interfaces func(Filtering) []string
	// Observer counts. Nil: none.
	Observer Observer
	// Logger gets a line for each failure that is new, and for what changes.
	Logger hclog.Logger
}

// Observer counts what is done for pools.
type Observer interface {
	// Applied counts changes of the kernel's tables.
	Applied(pool string, added, replaced, removed int)
	// Routed is the time from when the store told of changed blocks until they were routed.
	Routed(pool string, took time.Duration)
	// Probed is an answered probe of a host, or the error of one that is not.
	Probed(pool string, took time.Duration, err error)
}

// Span has the pools of a host whose networks span hosts.
type Span struct {
	config Config
	kicks  wake.Signal
	// refilter tells of pools and settings that have changed, moved of the kernel's tables, and disturbed
	// of its filters.
	refilter, moved, disturbed wake.Signal
	group                      sync.WaitGroup
	// table is nil until it is needed. It is of the loop alone.
	table Table

	mu       sync.Mutex // guards all below
	settings Settings
	runners  map[string]*runner
	// found is whether pools have been looked for, and spared are the subnets of those without a runner
	// that have routes.
	found  bool
	spared map[string][]netip.Prefix
	// unfiltered is the problem of the filters if there are no runners. Empty: none.
	unfiltered string
	// failed are the problems of pools without a runner. That of all pools is under "".
	failed map[string]Problem
}

// New returns what Run starts.
func New(c Config, s Settings) *Span {
	return &Span{config: c, settings: s, kicks: wake.NewSignal(), refilter: wake.NewSignal(), moved: wake.NewSignal(), disturbed: wake.NewSignal(), runners: map[string]*runner{}, spared: map[string][]netip.Prefix{}, failed: map[string]Problem{}}
}

// Configure changes the settings. It may be called at any time.
func (s *Span) Configure(settings Settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings = settings
	s.refilter.Send()
	for _, r := range s.runners {
		r.configure(settings)
	}
}

// Kick has the pools looked for again. It does not wait.
func (s *Span) Kick() { s.kicks.Send() }

const (
	// findPause is the time between two looks for pools.
	findPause = 30 * time.Second
	// watchPause is the time between two attempts to hear of the kernel's changes.
	watchPause = 5 * time.Second
)

// Run keeps the routes of the pools until ctx ends. It leaves them to the kernel then.
func (s *Span) Run(ctx context.Context) {
	defer s.group.Wait()
	defer s.endAll()
	if s.config.Filter != nil {
		s.group.Go(func() { s.watchFilters(ctx) })
	}
	if s.config.WatchFilter != nil {
		s.group.Go(func() { s.watchRules(ctx) })
	}
	for goesOn := true; goesOn; goesOn = s.kicks.Await(ctx, findPause) {
		s.update(ctx)
	}
}

// open opens the table if there is a use for it.
func (s *Span) open(ctx context.Context, kept []Kept) bool {
	if s.table != nil {
		return true
	}
	needed := slices.ContainsFunc(kept, func(k Kept) bool { return k.Config.Mode != ipam.ModeFlat })
	table, err := s.config.Table(needed)
	s.note("", KernelFailed, err)
	if table == nil || err != nil {
		return false
	}
	s.table = table
	s.group.Go(func() { s.watchKernel(ctx, table) })
	return true
}

// watchKernel has all pools applied again when the kernel's tables change.
func (s *Span) watchKernel(ctx context.Context, table Table) {
	for ctx.Err() == nil {
		changes, err := table.Changes(ctx)
		if err != nil {
			s.config.Logger.Warn("changes of the kernel's routes are noticed within 10 seconds only", "error", err)
		} else {
			for pools := range changes {
				s.each(func(r *runner) {
					if slices.Contains(pools, r.config.Pool) {
						r.reapply()
					}
				})
				s.moved.Send()
			}
		}
		wake.After(ctx, watchPause)
	}
}

func (s *Span) each(do func(*runner)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runners {
		do(r)
	}
}

// update starts and ends runners. Routes of a pool that has become flat are removed, and those of
// a pool without a network as soon as no attachment needs them, or they are in the way of another
// pool's.
func (s *Span) update(ctx context.Context) {
	kept, complete := s.config.Kept()
	if !s.open(ctx, kept) {
		return
	}
	made := s.made()
	configs := map[string]*ipam.Config{}
	for _, k := range kept {
		configs[k.Config.Pool] = k.Config
	}
	var stay []claim
	for name, subnets := range made {
		if configs[name] == nil && !complete {
			stay = append(stay, claim{name, subnets})
		}
	}
	chosen, all, refused := choose(kept, made, stay)
	for name, subnets := range made {
		c := configs[name]
		isFlat, without := c != nil && c.Mode == ipam.ModeFlat, c == nil && complete
		if isFlat && len(subnets) == 0 {
			subnets = c.Subnets() // the record is damaged
		}
		inTheWay := without && overlapped(claim{name, subnets}, all) != nil
		if isFlat || refused[name] != nil || inTheWay || without && !s.isUsed(subnets) {
			s.remove(route.Pool{Name: name, Subnets: subnets})
		}
	}
	s.noteRefused(refused)
	for _, k := range chosen {
		s.run(ctx, k)
	}
	s.spare()
}

// spare notes the pools that have routes and no runner. They may be in use, so their packets pass as before.
func (s *Span) spare() {
	recorded, err := s.table.Pools()
	if err != nil {
		return // as it was: update has noted it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	spared := map[string][]netip.Prefix{}
	for _, p := range recorded {
		if s.runners[p.Name] == nil {
			spared[p.Name] = p.Subnets
		}
	}
	if !s.found || !maps.EqualFunc(spared, s.spared, slices.Equal[[]netip.Prefix]) {
		s.refilter.Send()
	}
	s.found, s.spared = true, spared
}

// noteRefused replaces the problems of pools that overlap others.
func (s *Span) noteRefused(refused map[string]error) {
	s.mu.Lock()
	maps.DeleteFunc(s.failed, func(pool string, p Problem) bool { return p.Kind == Overlapping && refused[pool] == nil })
	s.mu.Unlock()
	for pool, err := range refused {
		s.note(pool, Overlapping, err)
	}
}

// made returns the subnets of all pools that have a runner, or routes.
func (s *Span) made() map[string][]netip.Prefix {
	recorded, err := s.table.Pools()
	s.note("", KernelFailed, err)
	all := map[string][]netip.Prefix{}
	for _, p := range recorded {
		all[p.Name] = p.Subnets
	}
	s.each(func(r *runner) { all[r.config.Pool] = r.config.Subnets() })
	return all
}

// run starts a runner unless there is one with this configuration.
func (s *Span) run(ctx context.Context, k Kept) {
	s.mu.Lock()
	present, settings := s.runners[k.Config.Pool], s.settings
	s.mu.Unlock()
	if present != nil && present.pool == k.Pool && reflect.DeepEqual(present.config, k.Config) {
		return
	}
	if present != nil {
		present.end()
	}
	r := newRunner(s.config, s.table, k, settings, s.refilter.Send)
	s.mu.Lock()
	s.runners[k.Config.Pool] = r
	s.mu.Unlock()
	r.start(ctx)
	s.refilter.Send()
}

// isUsed tells whether attachments of a network that was removed need the routes. What is not
// known counts as used.
func (s *Span) isUsed(subnets []netip.Prefix) bool {
	return len(subnets) == 0 || slices.ContainsFunc(subnets, func(p netip.Prefix) bool {
		used, err := s.config.InUse(p)
		return used || err != nil
	})
}

// remove ends a runner, and removes the routes of its pool.
func (s *Span) remove(p route.Pool) {
	pool := p.Name
	s.mu.Lock()
	r := s.runners[pool]
	delete(s.runners, pool)
	s.mu.Unlock()
	s.refilter.Send()
	if r != nil {
		r.end()
	}
	err := s.table.Remove(p)
	s.note(pool, KernelFailed, err)
	if err == nil {
		s.config.Logger.Info("removed the routes of a pool that needs none", "pool", pool)
	}
}

// note replaces the problem of a pool without a runner, and logs a new one.
func (s *Span) note(pool string, k Kind, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.failed, pool)
		return
	}
	before, now := s.failed[pool], Problem{k, err.Error()}
	s.failed[pool] = now
	switch {
	case before == now:
	case pool == "":
		s.config.Logger.Error("the routes to other hosts are not kept", "error", err)
	case k == Overlapping:
		s.config.Logger.Error("a pool has no routes to other hosts", "pool", pool, "error", err)
	default:
		s.config.Logger.Error("routes of a pool without a network are not removed", "pool", pool, "error", err)
	}
}

func (s *Span) endAll() {
	s.mu.Lock()
	runners := maps.Clone(s.runners)
	s.mu.Unlock()
	for _, r := range runners {
		r.end()
	}
}

// Status returns the state of each pool, by name.
func (s *Span) Status() []Status {
	s.mu.Lock()
	runners, failed, unfiltered := slices.Collect(maps.Values(s.runners)), maps.Clone(s.failed), s.unfiltered
	s.mu.Unlock()
	all := make([]Status, 0, len(runners)+len(failed))
	for _, r := range runners {
		all = append(all, r.status())
	}
	for pool, p := range failed {
		all = append(all, Status{Pool: pool, Problems: []Problem{p}})
	}
	if unfiltered != "" {
		all = append(all, Status{Problems: []Problem{{Filtered, unfiltered}}})
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Pool, b.Pool) })
	return all
}

// NotReady lists why this host is not connected with others. What other hosts, the store and
// Nomad do, or do not, is no reason.
func (s *Span) NotReady() []string {
	own := []Kind{AddressUnknown, DeviceFailed, EndpointFailed, KernelFailed, Overlapping}
	var reasons []string
	for _, pool := range s.Status() {
		for _, p := range pool.Problems {
			if slices.Contains(own, p.Kind) {
				reasons = append(reasons, "pool "+pool.Pool+": "+p.Text)
			}
		}
	}
	return reasons
}
