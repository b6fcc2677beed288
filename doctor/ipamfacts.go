// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	agentpools "github.com/allocnet/allocnet/cluster/pools"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/policy"
)

// PoolSource is where the facts of a pool are from.
type PoolSource struct {
	// Pool is the pool on this host.
	Pool SharedPool
	// Open returns who this host is.
	Open func() (ipam.Store, ipam.Host, error)
	// Gone tells whether Nomad does not know a node. Nil: unknown.
	Gone func(ctx context.Context, nodeID string) (bool, error)
	// Fence is the time without verification after which no new address is assigned.
	Fence time.Duration
	// OneHost: the store is in files of this host.
	OneHost bool
}

// SharedPool is a pool of allocnet-ipam; see package pool.
type SharedPool interface {
	Usage(ctx context.Context) (pool.Usage, error)
	Show(ctx context.Context) (pool.Overview, error)
	Status(ctx context.Context) error
}

// poolTimeout bounds the examination of a pool, whose store may not answer in full.
const poolTimeout = 15 * time.Second

// localTimeout bounds what this host has of a pool: an agent that is stopped may have its lock.
var localTimeout = 3 * time.Second

var errLocked = errors.New("another process has its lock, and does not end")

// ExaminePools examines pools at the same time: a store that does not answer is waited for once.
func ExaminePools(ctx context.Context, configs []*ipam.Config, sources []PoolSource) []Finding {
	found := make([][]Finding, len(configs))
	var all sync.WaitGroup
	for i, c := range configs {
		all.Go(func() { found[i] = examinePool(collectPool(ctx, c, sources[i])) })
	}
	all.Wait()
	return slices.Concat(found...)
}

// collectPool returns the facts of a pool. What cannot be read is a fact, too.
func collectPool(ctx context.Context, c *ipam.Config, s PoolSource) poolFacts {
	ctx, stop := context.WithTimeout(ctx, poolTimeout)
	defer stop()
	f := poolFacts{Config: c, Fence: s.Fence, Now: time.Now(), Gone: map[string]bool{}}
	var unread error
	if _, f.Host, unread = s.Open(); unread == nil {
		f.Overview, unread = s.Pool.Show(ctx)
	}
	f.Unread = unread
	local, stopLocal := context.WithTimeoutCause(ctx, localTimeout, errLocked)
	defer stopLocal()
	var failed error
	f.Usage, failed = s.Pool.Usage(local)
	if f.UsageUnknown = failed != nil; !f.UsageUnknown && f.Usage.Closed == nil {
		failed = s.Pool.Status(ctx)
	}
	f.Unusable = cmp.Or(f.Usage.Closed, failed)
	f.Leases, failed = leases(filepath.Join(c.DataDir, c.Pool))
	f.Unusable = errors.Join(f.Unusable, failed)
	if used, err := netns.Addresses(); err == nil { // after the leases: a new one has its address later
		f.InUse = used
	} else {
		f.Unusable = errors.Join(f.Unusable, fmt.Errorf("addresses in namespaces: %w", err))
	}
	if s.Gone != nil {
		f.gone(ctx, s.Gone)
	}
	return f
}

// gone asks once for each node. One that Nomad does not tell about is not gone.
func (f *poolFacts) gone(ctx context.Context, ask func(context.Context, string) (bool, error)) {
	asked := map[string]bool{"": true}
	add := func(h ipam.Host) {
		if asked[h.NodeID] {
			return
		}
		asked[h.NodeID] = true
		gone, err := ask(ctx, h.NodeID)
		if f.Unasked = cmp.Or(f.Unasked, err); err == nil && gone {
			f.Gone[h.NodeID] = true
		}
	}
	for _, b := range f.Overview.Blocks {
		add(b.Host)
	}
	for _, a := range f.Overview.Addresses {
		add(a.Host)
	}
}

// leases returns the leased addresses with their owners. A missing directory has none.
func leases(dir string) (map[netip.Addr]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	owners := map[netip.Addr]string{}
	for _, entry := range entries {
		address, err := netip.ParseAddr(entry.Name())
		if err != nil {
			continue
		}
		data, err := files.Read(filepath.Join(dir, entry.Name()))
		if errors.Is(err, fs.ErrNotExist) { // freed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		owners[address] = strings.Join(strings.Fields(string(data)), " ")
		if owners[address] == "" {
			owners[address] = "an unknown attachment"
		}
	}
	return owners, nil
}

func (d *Doctor) sharedPools(ctx context.Context, r *Report, networks []network) {
	var all []*cniconf.Network
	for _, n := range networks {
		all = append(all, n.Network)
	}
	found, broken := agentpools.Find(all)
	var opened []*ipam.Config
	var sources []PoolSource
	for name, err := range broken {
		r.addError("pool "+name, err.Error(), "correct the key ipam of the network")
	}
	for _, c := range found {
		source, err := d.PoolSource(c)
		if err != nil {
			r.addError("pool "+c.Pool, err.Error(), "correct the block ipam in "+c.ConfigDir)
			continue
		}
		opened, sources = append(opened, c), append(sources, source)
		if source.OneHost {
			oneHost(r, networks, c)
		}
	}
	if !d.Unprivileged {
		r.Findings = append(r.Findings, ExaminePools(ctx, opened, sources)...)
	}
	d.unusedPools(r, found)
}

// oneHost reports networks on a shared link, and those that span hosts, whose pool is in files of
// this host.
func oneHost(r *Report, networks []network, c *ipam.Config) {
	fix := "add the block ipam { store = \"nomad\" } to " + c.ConfigDir + " on every host"
	if c.Mode != ipam.ModeFlat {
		r.addError("pool "+c.Pool, fmt.Sprintf("has the mode %s, and is stored on this host: other hosts have no route to its blocks, and assign the same addresses", c.Mode), fix)
		return
	}
	for _, n := range networks {
		for _, p := range n.Chain() {
			if p.PassesHost() && uses(n.Network, c.Pool) {
				r.addWarning(n.Path, fmt.Sprintf("network %q is %s, and pool %q is stored on this host: another host with the same pool assigns the same addresses", n.Name, p.Type, c.Pool), fix)
			}
		}
		if rules, err := policy.Of(n.Network); err == nil && rules.PublishAddress.Pool() == c.Pool {
			r.addWarning(n.Path, fmt.Sprintf("network %q publishes addresses of pool %q, which is stored on this host: another host with the same pool takes them at the same time", n.Name, c.Pool), fix)
		}
	}
}

func uses(n *cniconf.Network, name string) bool {
	return slices.ContainsFunc(n.Pools(), func(p cniconf.Pool) bool { return p.Shared != nil && p.Shared.Pool == name })
}

// unusedPools reports the records of pools that no network has any more: their blocks stay
// claimed.
func (d *Doctor) unusedPools(r *Report, found []*ipam.Config) {
	dir := filepath.Join(d.StateDir, "ipam", "pools")
	entries, err := os.ReadDir(dir)
	hidden := d.Unprivileged && errors.Is(err, fs.ErrPermission)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !hidden {
		r.addError(dir, err.Error(), "correct the mode of the directory")
	}
	for _, entry := range entries {
		if !slices.ContainsFunc(found, func(c *ipam.Config) bool { return c.Pool == entry.Name() }) {
			r.addWarning(filepath.Join(dir, entry.Name()), "has the records of a pool that no network uses: this host's blocks of it stay claimed",
				"restore the network. Or give the blocks up, if nothing is attached: remove the directory, and run on another host: allocnet ipam release --force --node NODE "+entry.Name()+", with the ID of this node")
		}
	}
}
