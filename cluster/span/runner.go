// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/peers"
	"github.com/allocnet/allocnet/cluster/route"
	"github.com/allocnet/allocnet/internal/echo"
	"github.com/allocnet/allocnet/internal/wake"
)

const (
	// applyPause is the time between two comparisons with the kernel's tables if nothing changes.
	applyPause = 10 * time.Second
	// applyAtLeast is the time between two in quick succession.
	applyAtLeast = 100 * time.Millisecond
	// pendingPause is the pause while more has to be asked for.
	pendingPause = time.Second
	// endpointLimit bounds one attempt to tell the others where this host is.
	endpointLimit = 10 * time.Second
	// storePause is the pause after the first failure of the store, and mostStorePause after more.
	storePause, mostStorePause = time.Second, 10 * time.Second
)

type runner struct {
	config   *ipam.Config
	pool     Pool
	peers    Peers
	table    Table
	observer Observer
	log      hclog.Logger
	send     func(context.Context, echo.Request) (time.Duration, error)
	locator  locator
	acceptor *acceptor
	// refilter is what to call when what the filters have to know has changed.
	refilter func()
	kicks    wake.Signal
	stop     context.CancelFunc
	stopped  chan struct{}

	// These are of the loop alone. published is what the pool has, told when it was told last (zero: the device has failed since),
	// prepared whether the table knows this host, and applied whether the kernel's tables are
	// this runner's work.
	published         ipam.Endpoint
	told              time.Time
	prepared, applied bool

	mu       sync.Mutex // guards all below
	settings Settings
	// blocks are those of the store. Nil: it has not answered yet.
	blocks *peers.Blocks
	// changed is when blocks changed that are not routed yet. Zero: all are.
	changed time.Time
	current Status
	passage passage
	failed  map[Kind]string
	// answers are the last ones to probes.
	answers map[probeKey]Probe
}

// passage is whether packets of a pool are to pass this host.
type passage int

const (
	// passageUnknown is that of a pool whose subnets were not compared with what this host has yet.
	passageUnknown passage = iota
	// passageWanted is that of a pool that gets routes, and passageUnwanted of one whose subnets are not its own.
	passageWanted
	passageUnwanted
)

func newRunner(c Config, t Table, k Kept, s Settings, refilter func()) *runner {
	all, nomad := c.Open(k.Config)
	return &runner{
		config: k.Config, pool: k.Pool, peers: all, table: t, observer: c.Observer, send: c.Ping, log: c.Logger.With("pool", k.Config.Pool),
		locator: locator{nomad: nomad, linkLocal: c.LinkLocal}, acceptor: newAcceptor(nomad), refilter: refilter, kicks: wake.NewSignal(),
		settings: s, current: Status{Pool: k.Config.Pool, Mode: k.Config.Mode}, failed: map[Kind]string{},
	}
}

func (r *runner) start(ctx context.Context) {
	ctx, r.stop = context.WithCancel(ctx)
	r.stopped = make(chan struct{})
	go func() {
		defer close(r.stopped)
		var group sync.WaitGroup
		defer group.Wait()
		group.Go(func() { r.watch(ctx) })
		group.Go(func() { r.probe(ctx) })
		r.keep(ctx)
	}()
}

// end stops the runner, and waits for what is in flight.
func (r *runner) end() {
	r.stop()
	<-r.stopped
}

func (r *runner) reapply() { r.kicks.Send() }

func (r *runner) configure(s Settings) {
	r.mu.Lock()
	r.settings = s
	r.mu.Unlock()
	r.reapply()
}

// watch reads the blocks whenever they change.
func (r *runner) watch(ctx context.Context) {
	wait := storePause
	for {
		blocks, err := r.peers.Next(ctx)
		if ctx.Err() != nil {
			return
		}
		r.note(StoreFailed, err)
		if err != nil {
			wake.After(ctx, wait)
			wait = min(2*wait, mostStorePause)
			continue
		}
		wait = storePause
		r.listed(blocks)
	}
}

func (r *runner) listed(blocks peers.Blocks) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.blocks == nil || !sameBlocks(*r.blocks, blocks) {
		r.changed = now
		r.reapply()
	}
	r.blocks, r.current.Listed = &blocks, now
}

func (r *runner) keep(ctx context.Context) {
	for ctx.Err() == nil {
		wait := r.step(ctx)
		wake.After(ctx, applyAtLeast)
		r.kicks.Await(ctx, wait)
	}
}

// step does all once, and returns when to do it again.
func (r *runner) step(ctx context.Context) time.Duration {
	pool := route.PoolOf(r.config)
	usual := applyPause
	if !r.publish(ctx, pool) {
		usual = pendingPause
	}
	r.mu.Lock()
	blocks, networks, changed := r.blocks, r.settings.NodeNetworks, r.changed
	r.mu.Unlock()
	if blocks == nil || ctx.Err() != nil || !r.prepared {
		return usual
	}
	verdicts, err := r.acceptor.decide(ctx, blocks.Remote, networks)
	if ctx.Err() != nil {
		return usual
	}
	r.note(NodesFailed, err)
	targets, pending := r.targets(blocks.Remote, verdicts)
	if pending && !r.applied {
		return pendingPause // a route of an earlier agent may be one of those
	}
	report, err := r.table.Apply(pool, blocks.Own, targets)
	r.note(KernelFailed, err)
	r.applied = r.applied || err == nil
	r.compared(report, err)
	r.observe(report, changed, err)
	r.show(*blocks, verdicts, report, err)
	if pending && err == nil {
		return pendingPause
	}
	return usual
}

// compared notes what Apply says of the pool's subnets.
func (r *runner) compared(report route.Report, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.passage
	switch {
	case errors.Is(err, route.ErrOverlap):
		r.passage = passageUnwanted
	case err == nil || len(report.Routes) > 0:
		r.passage = passageWanted
	}
	if r.passage != before {
		r.refilter()
	}
}

func (r *runner) targets(all []peers.Remote, verdicts map[ipam.Block]verdict) (targets []route.Target, pending bool) {
	for _, remote := range all {
		v := verdicts[remote.Block]
		pending = pending || v.pending
		if v.accepted {
			targets = append(targets, route.Target{Block: remote.Block, Node: v.label(remote), Endpoint: remote.Endpoint})
		}
	}
	return targets, pending
}

// publish makes the device, and tells the others where this host is. What fails is tried again:
// soon, if it returns false, because this host may be about to get another address.
func (r *runner) publish(ctx context.Context, pool route.Pool) bool {
	r.mu.Lock()
	configured := r.settings.Address
	r.mu.Unlock()
	endpoint, err := r.locator.locate(ctx, configured)
	if ctx.Err() != nil {
		return true
	}
	r.note(AddressUnknown, err)
	located := err == nil
	if !located {
		endpoint = r.published // the device is to stay, too
	}
	endpoint.MAC = r.published.MAC
	switch {
	case !endpoint.Address.IsValid():
		return false
	case located && endpoint == r.published && time.Since(r.told) < applyPause:
		return true // Apply keeps the device
	}
	mac, mtu, err := r.table.Device(pool, endpoint)
	r.note(DeviceFailed, err)
	r.prepared = true // also with an error: without its device a pool has routes to the hosts on the link
	if err != nil {
		r.told = time.Time{}
		return located
	}
	endpoint.MAC = mac
	r.tell(ctx, endpoint, mtu)
	return located
}

// tell tells the pool the endpoint, also one that it was told: its state directory may be lost.
func (r *runner) tell(ctx context.Context, endpoint ipam.Endpoint, mtu int) {
	if endpoint != r.published || time.Since(r.told) >= applyPause {
		r.told = time.Now()
		limited, stop := context.WithTimeout(ctx, endpointLimit)
		defer stop()
		err := r.pool.SetEndpoint(limited, endpoint)
		if ctx.Err() != nil {
			return
		}
		r.note(EndpointFailed, err)
		if err != nil {
			return
		}
		if endpoint != r.published {
			r.log.Info("other hosts are told where this host is", "address", endpoint.Address, "mac", endpoint.MAC)
		}
		r.published = endpoint
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current.Endpoint.Address != endpoint.Address {
		r.refilter()
	}
	r.current.Endpoint, r.current.MTU = endpoint, mtu
}

// passes returns whether packets of the pool are to pass, and the address that other hosts send them to. Without
// one it is unknown by which interface they come.
func (r *runner) passes() (passage, netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	node := r.current.Endpoint.Address
	if r.passage == passageWanted && !node.IsValid() {
		return passageUnknown, node
	}
	return r.passage, node
}

func (r *runner) observe(report route.Report, changed time.Time, err error) {
	now := time.Now()
	if report.Added+report.Replaced+report.Removed > 0 {
		r.log.Info("changed routes", "added", report.Added, "replaced", report.Replaced, "removed", report.Removed)
	}
	if r.observer != nil {
		r.observer.Applied(r.config.Pool, report.Added, report.Replaced, report.Removed)
		if err == nil && !changed.IsZero() {
			r.observer.Routed(r.config.Pool, now.Sub(changed))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.current.Applied = now
		if r.changed.Equal(changed) {
			r.changed = time.Time{}
		}
	}
}

// show keeps what Apply found for the status. After an error the routes are as they were.
func (r *runner) show(blocks peers.Blocks, verdicts map[ipam.Block]verdict, report route.Report, err error) {
	if err != nil && len(report.Routes) == 0 {
		return
	}
	routes := map[ipam.Block]route.Route{}
	for _, made := range report.Routes {
		routes[made.Block] = made
	}
	nodes := nodesOf(blocks, verdicts, routes)
	var invalid, unrouted []string
	for _, i := range blocks.Invalid {
		invalid = append(invalid, fmt.Sprintf("%s: %v", i.Path, i.Err))
	}
	for _, remote := range blocks.Remote {
		v := verdicts[remote.Block]
		made, ok := routes[remote.Block]
		switch {
		case !v.accepted:
			unrouted = append(unrouted, fmt.Sprintf("%s of node %s is %s: %s", remote.Block, v.label(remote), route.Refused, v.reason))
		case ok && made.State != route.Installed && made.State != route.Replaced:
			unrouted = append(unrouted, fmt.Sprintf("%s of node %s is %s: %s", remote.Block, v.label(remote), made.State, made.Reason))
		}
	}
	r.noteText(Invalid, list(invalid))
	r.noteText(Unrouted, list(unrouted))
	r.note(Unguarded, report.Unguarded)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current.Own, r.current.Nodes = blocks.Own, nodes
}

// note replaces the problem of a kind, and logs a new one.
func (r *runner) note(k Kind, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	r.noteText(k, text)
}

func (r *runner) noteText(k Kind, text string) {
	r.mu.Lock()
	before := r.failed[k]
	r.failed[k] = text
	r.mu.Unlock()
	switch text {
	case before:
	case "":
		r.log.Info("a problem has ended", "problem", k)
	default:
		r.log.Warn("a problem", "problem", k, "error", text)
	}
}

func (r *runner) status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.current
	s.Nodes = slices.Clone(s.Nodes)
	for i := range s.Nodes {
		if answer, ok := r.answers[s.Nodes[i].Probe.key()]; ok {
			s.Nodes[i].Probe = answer
		}
	}
	for _, k := range Kinds {
		if text := r.failed[k]; text != "" {
			s.Problems = append(s.Problems, Problem{k, text})
		}
	}
	return s
}

func sameBlocks(a, b peers.Blocks) bool {
	return slices.Equal(a.Own, b.Own) && slices.Equal(a.Remote, b.Remote) && slices.EqualFunc(a.Invalid, b.Invalid, func(x, y peers.Invalid) bool {
		return x.Path == y.Path && x.Err.Error() == y.Err.Error()
	})
}
