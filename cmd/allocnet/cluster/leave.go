// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/block"
	"github.com/allocnet/allocnet/cluster/ipam/local"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	"github.com/allocnet/allocnet/cluster/pools"
	"github.com/allocnet/allocnet/cluster/route"
	"github.com/allocnet/allocnet/cluster/span"
	"github.com/allocnet/allocnet/cluster/span/packetfilter"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/texts"
	"github.com/allocnet/allocnet/internal/wake"
	"github.com/allocnet/allocnet/state"
)

// leavingPool is a pool that this host gives up; see package pool.
type leavingPool interface {
	Usage(ctx context.Context) (pool.Usage, error)
	Leases(ctx context.Context) ([]local.Lease, error)
	Leave(ctx context.Context) ([]ipam.Block, error)
}

// leavingTable has the routes of this host; see package route.
type leavingTable interface {
	Pools() ([]route.Pool, error)
	RemoveAll() error
}

// leavingFilters let packets of pools through; see package packetfilter.
type leavingFilters interface {
	Remove(ctx context.Context, known map[string][]netip.Prefix) error
}

type leave struct {
	yes     bool
	json    bool
	table   leavingTable
	filters leavingFilters
	pools   map[string]leavingPool
	subnets map[string][]netip.Prefix
	// stranded are the blocks of pools that no network uses: nothing can give them back.
	stranded map[string][]ipam.Block
	used     func() (map[netip.Addr]string, error)
	// pause is how long it waits for copies of this host that can object, in each of objectionPauses.
	pause time.Duration
}

// objectionPauses are enough for two periods in which a copy can object: of the host, and of what it gives back.
const objectionPauses = 20

func newLeave(s *cli.Settings) *cobra.Command {
	l := &leave{used: netns.Addresses, pause: 5 * time.Second}
	var f cli.AgentFlags
	cmd := &cobra.Command{
		Use:   "leave",
		Short: "Remove all that networks that span hosts have on this host",
		Long: `Remove the routes to other hosts, the VXLAN devices, and what lets packets through the
firewall (filtering = "accept"), and give this host's blocks of the pools whose networks span
hosts back to the store. The command shows what it would remove, and asks.

First stop the allocations that have addresses of these pools, as with nomad node drain, and
stop the agent: it would make the routes again. The command refuses otherwise. It reads
state_dir and conf_dir of the agent's configuration: repeat flags that the agent has instead.
Afterwards, remove the networks from the CNI configuration directories before you start the
agent.

If the store does not answer, or the network of a pool was removed before, the routes and
devices are removed nevertheless, the blocks that stay this host's are named, and the exit
code is 1. So it is if the firewall keeps what lets packets through: the blocks are given
back. The command can be repeated.

It takes 40 s if the host has blocks in a store that others use: a copy of this machine can object meanwhile.

--json prints a list of what was given back of each pool, and needs --yes.`,
		Example: `  allocnet cluster leave --yes`,
		Args:    cli.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return l.open(cmd, s, &f) },
	}
	cmd.Flags().StringVar(&f.Config, "config", config.DefaultDir, "the agent's configuration: a .hcl file, or a directory of .hcl files")
	cmd.Flags().BoolVarP(&l.yes, "yes", "y", false, "do not ask")
	return cmd
}

// open finds the pools, and leaves them while no agent with the same state directory can start, which has the
// records of the routes, too.
func (l *leave) open(cmd *cobra.Command, s *cli.Settings, f *cli.AgentFlags) error {
	if err := cli.RequireRoot(); err != nil {
		return err
	}
	if l.json = s.JSON; l.json && !l.yes {
		return errJSONAsks
	}
	c, err := f.Load(cmd.Flags(), s)
	if err != nil {
		return err
	}
	if err := l.findPools(c.ConfDirs, c.StateDir); err != nil {
		return err
	}
	dir := span.Dir(c.StateDir)
	unlock, err := lockRoutes(dir)
	if errors.Is(err, span.ErrLocked) {
		return cli.Usage(fmt.Errorf("nothing is removed: %w: stop the agent first (systemctl stop allocnet.service allocnet.socket)", err))
	}
	if err != nil {
		return err
	}
	defer unlock()
	l.table, l.filters = route.New(route.Options{Dir: dir}), packetfilter.New(packetfilter.Options{Dir: dir})
	if err := l.run(cmd); err != nil {
		return err
	}
	return span.RemoveDir(dir)
}

// lockRoutes keeps agents out that have the same state directory, and refuses if one with another runs.
func lockRoutes(dir string) (unlock func(), err error) {
	if err := span.RequireNoOther(); err != nil {
		return nil, err
	}
	return span.Lock(dir)
}

// findPools opens those whose networks span hosts.
func (l *leave) findPools(confDirs []string, stateDir string) error {
	catalog, err := cniconf.Load(confDirs...)
	if err != nil {
		return err
	}
	found, broken := pools.Find(catalog.Networks)
	if len(broken) > 0 {
		return cli.Usage(fmt.Errorf("nothing is removed; correct or remove the networks first: %w", joined(broken)))
	}
	l.pools, l.subnets = map[string]leavingPool{}, map[string][]netip.Prefix{}
	for _, c := range found {
		if c.Mode == ipam.ModeFlat {
			continue
		}
		a, err := access(c)
		if err != nil {
			return fmt.Errorf("pool %s: %w", c.Pool, err)
		}
		l.pools[c.Pool], l.subnets[c.Pool] = a.pool.(*pool.Pool), c.Subnets()
	}
	return l.findStranded(stateDir, found)
}

// findStranded finds the pools on record whose networks were removed.
func (l *leave) findStranded(stateDir string, found []*ipam.Config) error {
	recorded, err := block.SpanningPools(stateDir)
	if err != nil {
		return err
	}
	l.stranded = map[string][]ipam.Block{}
	for _, p := range recorded {
		if !slices.ContainsFunc(found, func(c *ipam.Config) bool { return c.Pool == p.Pool }) {
			l.subnets[p.Pool], l.stranded[p.Pool] = p.Subnets, p.Blocks
		}
	}
	return nil
}

func (l *leave) run(cmd *cobra.Command) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	if l.json {
		out = io.Discard
	}
	recorded, err := l.table.Pools()
	if err != nil {
		return err
	}
	for _, p := range recorded {
		if _, ok := l.subnets[p.Name]; !ok {
			l.subnets[p.Name] = p.Subnets
		}
	}
	if err := l.unused(ctx); err != nil {
		return err
	}
	blocks, err := l.blocks(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(l.subnets)) {
		_, _ = fmt.Fprintf(out, "pool %s: routes and devices, blocks of this host: %s\n", name, cli.OrDash(texts.Join(blocks[name], " "))) // the last write reports
	}
	if !l.yes {
		if err := confirm(cmd.InOrStdin(), out, "Remove this?", "nothing is removed"); err != nil {
			return err
		}
		if err := l.unused(ctx); err != nil { // the answer may have taken long
			return err
		}
	}
	if err := l.table.RemoveAll(); err != nil {
		return fmt.Errorf("remove the routes and devices: %w", err)
	}
	err = l.filters.Remove(ctx, l.subnets)
	if err != nil {
		err = fmt.Errorf("remove what lets packets through the firewall: %w", err)
	}
	if _, err := fmt.Fprintln(out, "removed the routes and devices"); err != nil {
		return err
	}
	released, errRelease := l.release(ctx, out)
	if l.json {
		errRelease = errors.Join(errRelease, cli.PrintJSON(cmd.OutOrStdout(), released))
	}
	if err := errors.Join(err, errRelease); err != nil {
		return &cli.ExitError{Code: cli.ExitFailed, Err: err}
	}
	return nil
}

func (l *leave) unused(ctx context.Context) error {
	attached, err := l.attached(ctx)
	if err != nil || len(attached) == 0 {
		return err
	}
	return cli.Usage(fmt.Errorf("nothing is removed: stop what is attached first: %s", strings.Join(attached, ", ")))
}

func (l *leave) attached(ctx context.Context) (named []string, err error) {
	used, err := l.used()
	if err != nil {
		return nil, fmt.Errorf("which namespaces have addresses: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(l.subnets)) {
		if p := l.pools[name]; p != nil {
			leases, err := p.Leases(ctx)
			if err != nil {
				return nil, fmt.Errorf("pool %s: %w", name, err)
			}
			for _, lease := range leases {
				named = append(named, fmt.Sprintf("%s (allocation %s, %s, pool %s)", lease.Address, state.AllocationOf(lease.Owner.ContainerID), lease.Owner.Interface, name))
				delete(used, lease.Address)
			}
		}
		for address, namespace := range used {
			if slices.ContainsFunc(l.subnets[name], func(p netip.Prefix) bool { return p.Contains(address) }) {
				named = append(named, fmt.Sprintf("%s (namespace %s, pool %s)", address, namespace, name))
			}
		}
	}
	slices.Sort(named)
	return named, nil
}

func (l *leave) blocks(ctx context.Context) (map[string][]ipam.Block, error) {
	all := map[string][]ipam.Block{}
	maps.Copy(all, l.stranded)
	for name, p := range l.pools {
		usage, err := p.Usage(ctx)
		if err != nil {
			return nil, fmt.Errorf("pool %s: %w", name, err)
		}
		for _, b := range usage.Blocks {
			if b.State == string(block.Lost) { // another host has it
				continue
			}
			all[name] = append(all[name], b.Block)
		}
	}
	return all, nil
}

// release gives the blocks back. All pools are attempted.
func (l *leave) release(ctx context.Context, out io.Writer) ([]releasedJSON, error) {
	var errs []error
	all, given := []releasedJSON{}, l.giveBack(ctx)
	for _, name := range slices.Sorted(maps.Keys(l.pools)) {
		released, err := given[name].blocks, given[name].err
		all = append(all, releasedJSON{name, append([]ipam.Block{}, released...), []netip.Addr{}})
		if len(released) > 0 {
			_, _ = fmt.Fprintf(out, "released of pool %s: %s\n", name, texts.Join(released, " ")) // the exit code tells
		}
		left, errLeft := l.blocks(ctx)
		if err = errors.Join(err, errLeft); len(left[name]) > 0 {
			err = fmt.Errorf("pool %s: %s still belong to this host: repeat the command: %w", name, texts.Join(left[name], " "), cmp.Or(err, l.stillHeld(ctx)))
		}
		errs = append(errs, err)
	}
	for _, name := range slices.Sorted(maps.Keys(l.stranded)) {
		errs = append(errs, fmt.Errorf("pool %s: %s still belong to this host: no network uses the pool: restore it, and repeat the command", name, texts.Join(l.stranded[name], " ")))
	}
	return all, errors.Join(errs...)
}

// givenBack is what a pool has got back, and why not more.
type givenBack struct {
	blocks []ipam.Block
	err    error
}

// giveBack gives back the blocks of all pools, and waits as long as only a copy of this host could object.
func (l *leave) giveBack(ctx context.Context) map[string]*givenBack {
	all := map[string]*givenBack{}
	for name := range l.pools {
		all[name] = &givenBack{}
	}
	for range objectionPauses {
		waits := false
		for name, g := range all {
			limited, stop := context.WithTimeout(ctx, storeTimeout)
			released, err := l.pools[name].Leave(limited)
			stop()
			g.blocks, g.err = append(g.blocks, released...), err
			waits = waits || errors.Is(err, block.ErrObjection)
		}
		if !waits || !wake.After(ctx, l.pause) {
			break
		}
	}
	return all
}

// stillHeld is why blocks stay although the store has answered.
func (l *leave) stillHeld(ctx context.Context) error {
	attached, err := l.attached(ctx)
	return cmp.Or(err, fmt.Errorf("what is attached since keeps them: %s", cli.OrDash(strings.Join(attached, ", "))))
}
