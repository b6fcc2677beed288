// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/cluster/connect"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/pools"
	"github.com/allocnet/allocnet/cluster/roster"
	"github.com/allocnet/allocnet/cluster/route"
	"github.com/allocnet/allocnet/internal/wake"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/state"
)

const (
	// recordsPause is the time between two looks at whether records have changed.
	recordsPause = 300 * time.Millisecond
	// rosterPause is the time between two looks at which pools there are, and whether isolation is about their attachments.
	rosterPause = 5 * time.Second
	// ownPause is the time after which attachments are read again though no record has changed: the levels of networks may have.
	ownPause = 10 * time.Second
	// numbersPause is how long rosters wait after a start for the numbers of allocations: without them other hosts would forget what they
	// call those of this one.
	numbersPause = 10 * time.Second
)

// sharer is what rosters need of isolation.
type sharer interface {
	Shares() (bool, error)
	Members(ctx context.Context) ([]isolation.Member, error)
	Version() (string, error)
	Learn(ctx context.Context, pool string, remotes []isolation.Remote, read time.Time) error
	Remembered(pool string) ([]isolation.Remote, error)
	Learned() (map[string]time.Time, error)
}

// rosters tell the other hosts of pools that span hosts of the attachments of this one, and learn of theirs, while isolation is about attachments.
type rosters struct {
	engine sharer
	// pools returns those that span hosts. It is complete if networks use no other one.
	pools func() (spanning []*ipam.Config, complete bool)
	open  func(*ipam.Config) func() (ipam.Store, ipam.Host, error)
	// indexes are the numbers of this host's allocations in their groups, by ID. Nil, or a nil map: they are not known, or not yet.
	indexes func() map[string]int
	// renumbered counts how often these have changed.
	renumbered func() uint64
	log        hclog.Logger
	// learned counts how often something was learned of other hosts.
	learned atomic.Uint64

	mu      sync.Mutex // guards all below
	running map[string]*running
	// own are the attachments of this host, as they were when version was read.
	own     []isolation.Member
	read    string
	readOwn time.Time
}

// running is the roster of a pool.
type running struct {
	*roster.Roster
	config *ipam.Config
	end    func()
}

// newRosters returns the rosters; nil for a hook that attaches nothing.
func (d *Daemon) newRosters(engine agent.Engine) *rosters {
	e, ok := engine.(isolated)
	if !ok || d.pools == nil {
		return nil
	}
	r := &rosters{engine: e.Isolation(), pools: func() ([]*ipam.Config, bool) { return spanningPools(d.pools) }, open: d.openRoster, log: d.log.Named("cluster"), running: map[string]*running{}}
	if d.nomad != nil {
		r.indexes, r.renumbered = d.nomad.Indexes, d.nomad.Renumbered
	}
	return r
}

func spanningPools(p *pools.Pools) (spanning []*ipam.Config, complete bool) {
	kept, complete := p.Kept()
	for _, k := range kept {
		if k.Config.Mode != ipam.ModeFlat {
			spanning = append(spanning, k.Config)
		}
	}
	return spanning, complete
}

func (d *Daemon) openRoster(c *ipam.Config) func() (ipam.Store, ipam.Host, error) {
	return d.observed(connect.New(c.ConfigDir, c.StateDir), c.Pool)
}

// run keeps a roster for each pool until ctx ends.
func (r *rosters) run(ctx context.Context) {
	defer r.endWhere(func(*running) bool { return true })
	began, looked := time.Now(), time.Time{}
	version := ""
	for ctx.Err() == nil {
		isTime := r.indexes == nil || r.indexes() != nil || time.Since(began) >= numbersPause
		if isTime && time.Since(looked) >= rosterPause {
			looked = time.Now()
			r.update(ctx)
		}
		version = r.kickAfter(version)
		wake.After(ctx, recordsPause)
	}
}

// update starts and ends rosters. What is known of a pool stays while it is not certain that it is not used any more.
func (r *rosters) update(ctx context.Context) {
	shares, err := r.engine.Shares()
	if err != nil && !shares {
		return // it is not known what the files would say without their mistakes
	}
	spanning, complete := r.pools()
	pools := spanning
	if !shares {
		pools = nil
	}
	present := map[string]bool{}
	for _, c := range pools {
		present[c.Pool] = true
		r.start(ctx, c)
	}
	if !complete && shares {
		return
	}
	r.forget(ctx, spanning, present)
}

// forget ends what is shared with the hosts of pools that are not present.
func (r *rosters) forget(ctx context.Context, spanning []*ipam.Config, present map[string]bool) {
	withdrawn := map[string]bool{}
	for _, one := range r.endWhere(func(one *running) bool { return !present[one.config.Pool] }) {
		one.Withdraw(ctx)
		withdrawn[one.config.Pool] = true
	}
	known, err := r.engine.Learned()
	for pool := range known {
		if present[pool] || err != nil {
			continue
		}
		at := slices.IndexFunc(spanning, func(c *ipam.Config) bool { return c.Pool == pool })
		if at >= 0 && !withdrawn[pool] { // an agent before this one has told
			r.newRoster(spanning[at]).Withdraw(ctx)
		}
		err = r.engine.Learn(ctx, pool, nil, time.Time{})
	}
	if err != nil {
		r.log.Warn("attachments on other hosts that are of no pool any more are still known", "error", err)
	}
}

// start starts the roster of a pool unless there is one with this configuration.
func (r *rosters) start(ctx context.Context, c *ipam.Config) {
	r.mu.Lock()
	present := r.running[c.Pool]
	r.mu.Unlock()
	if present != nil && reflect.DeepEqual(present.config, c) {
		return
	}
	r.endWhere(func(one *running) bool { return one == present })
	one := &running{config: c, Roster: r.newRoster(c)}
	ctx, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { one.Run(ctx) })
	one.end = func() { stop(); group.Wait() }
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[c.Pool] = one
}

func (r *rosters) newRoster(c *ipam.Config) *roster.Roster {
	return roster.New(roster.Options{
		Config: c, Open: r.open(c), Own: r.members, Routes: route.Links, Logger: r.log,
		Known: func() ([]isolation.Remote, error) { return r.engine.Remembered(c.Pool) },
		Learn: func(ctx context.Context, all []isolation.Remote, read time.Time) error {
			defer r.learned.Add(1)
			return r.engine.Learn(ctx, c.Pool, all, read)
		},
	})
}

// endWhere ends rosters, and returns them.
func (r *rosters) endWhere(which func(*running) bool) (ended []*running) {
	r.mu.Lock()
	for pool, one := range r.running {
		if which(one) {
			ended = append(ended, one)
			delete(r.running, pool)
		}
	}
	r.mu.Unlock()
	for _, one := range ended {
		one.end()
	}
	return ended
}

// kick has attachments and routes looked at. It may be called at any time.
func (r *rosters) kick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.running {
		one.Kick()
	}
}

// kickAfter has them looked at if the records have another version, and returns it. Without a roster no record is looked at.
func (r *rosters) kickAfter(version string) string {
	if r.isIdle() {
		return version
	}
	now, err := r.version()
	if err != nil || now == version {
		return version
	}
	r.kick()
	return now
}

func (r *rosters) isIdle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.running) == 0
}

// version returns a text that is another one after each change of a record or of a number.
func (r *rosters) version() (string, error) {
	version, err := r.engine.Version()
	if r.indexes != nil {
		version = fmt.Sprint(version, " ", r.renumbered())
	}
	return version, err
}

// members returns the attachments of this host.
func (r *rosters) members(ctx context.Context) ([]isolation.Member, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	version, err := r.version()
	if err == nil && version == r.read && time.Since(r.readOwn) < ownPause {
		return r.own, nil
	}
	own, err := r.engine.Members(ctx)
	r.number(own)
	if err == nil {
		r.own, r.read, r.readOwn = own, version, time.Now()
	}
	return own, err
}

// number gives attachments the numbers of their allocations.
func (r *rosters) number(own []isolation.Member) {
	if r.indexes == nil {
		return
	}
	indexes := r.indexes()
	for i := range own {
		if index, ok := indexes[state.AllocationOf(own[i].ID)]; ok {
			number := uint32(index) // it has 31 bits
			own[i].Index = &number
		}
	}
}
