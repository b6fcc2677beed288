// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/internal/texts"
)

type poolJSON struct {
	Pool string `json:"pool"`
	// Store is nomad, or file for a pool of this host. Empty: the configuration is invalid.
	Store     string         `json:"store"`
	Ranges    []ipam.Range   `json:"ranges"`
	Reserved  []netip.Prefix `json:"reserved"`
	BlockSize ipam.BlockSize `json:"blockSize"`
	// Mode is flat, routed, vxlan or auto. Empty: the configuration is invalid.
	Mode string `json:"mode,omitempty"`
	// VXLAN is that of the modes vxlan and auto.
	VXLAN     ipam.VXLAN    `json:"vxlan,omitzero"`
	Families  []familyJSON  `json:"families"`
	Blocks    []blockJSON   `json:"blocks"`
	Addresses []addressJSON `json:"addresses"`
	// Verified is when the blocks of this host were verified last.
	Verified time.Time `json:"verified,omitzero"`
	// Error is why the store could not be read, with only this host's blocks, or why the
	// configuration, or the agent's, is invalid.
	Error string `json:"error,omitempty"`
}

type familyJSON struct {
	Family ipam.Family `json:"family"`
	// Claimed of Blocks are those of all hosts.
	Claimed int    `json:"claimed"`
	Blocks  uint64 `json:"blocks"`
	// Used, Cooling and Free are addresses of this host's blocks.
	Used    int `json:"used"`
	Cooling int `json:"cooling"`
	Free    int `json:"free"`
}

type ownerJSON struct {
	Node     string `json:"node,omitempty"`
	NodeID   string `json:"nodeID,omitempty"`
	Instance string `json:"instance"`
	ThisHost bool   `json:"thisHost"`
}

// blockJSON is a block. Only the owner knows the use of its addresses.
type blockJSON struct {
	Block   ipam.Block `json:"block"`
	Owner   ownerJSON  `json:"owner"`
	State   string     `json:"state"`
	Claimed time.Time  `json:"claimed,omitzero"`
	// Endpoint is where the owner is reached, as the store has it.
	Endpoint ipam.Endpoint `json:"endpoint,omitzero"`
	Used     *int          `json:"used,omitempty"`
	Cooling  *int          `json:"cooling,omitempty"`
	Free     *int          `json:"free,omitempty"`
}

type addressJSON struct {
	Address netip.Addr        `json:"address"`
	State   ipam.AddressState `json:"state"`
	Owner   ownerJSON         `json:"owner"`
	Job     ipam.Job          `json:"job"`
	// Published is whether it is on an interface of the owner.
	Published bool `json:"published,omitempty"`
}

func newIPAMShow(s *cli.Settings) *cobra.Command {
	var d cli.Display
	cmd := &cobra.Command{
		Use:   "show [POOL]",
		Short: "Show pools with their ranges, blocks and reserved addresses",
		Long: `Show one pool, or all that the networks use: ranges, the blocks of all hosts with their
owners, and the reserved addresses that are kept. USED, COOLING and FREE are those of this
host: only the owner of a block knows the use of its addresses. A cooling address was freed
less than the cooldown ago.

If the store does not answer, the blocks of this host are shown, and the exit code is 1. It is
1 as well if a pool cannot be used.`,
		Example: `  allocnet ipam show
  allocnet ipam show vlan100
  allocnet ipam show vlan100 --json`,
		Args:              atMostOnePool,
		ValidArgsFunction: s.CompleteFirst(poolNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.Show(cmd, s.JSON, func(ctx context.Context) (v cli.View, err error) {
				s.Meanwhile(cmd.ErrOrStderr(), "asking the store of the pools", func() { v, err = viewPools(ctx, s, args) })
				return v, err
			})
		},
	}
	d.Register(cmd, "names")
	return cmd
}

func viewPools(ctx context.Context, s *cli.Settings, args []string) (cli.View, error) {
	configs, broken, err := configsOf(s, args)
	if err != nil {
		return cli.View{}, err
	}
	all := []poolJSON{}
	shown, errs := make([]poolJSON, len(configs)), make([]error, len(configs))
	var each sync.WaitGroup
	for i, c := range configs { // at the same time: a store that does not answer is waited for once
		each.Go(func() {
			var a poolAccess
			if a, errs[i] = access(c); errs[i] == nil {
				shown[i], errs[i] = a.show(ctx)
			}
		})
	}
	each.Wait()
	for i, c := range configs {
		if errs[i] != nil && len(args) > 0 {
			return cli.View{}, fmt.Errorf("pool %s: %w", c.Pool, errs[i])
		}
		if errs[i] != nil {
			broken[c.Pool] = errs[i]
			continue
		}
		all = append(all, shown[i])
	}
	for _, name := range slices.Sorted(maps.Keys(broken)) {
		all = append(all, poolJSON{Pool: name, Ranges: []ipam.Range{}, Reserved: []netip.Prefix{}, Families: []familyJSON{}, Blocks: []blockJSON{}, Addresses: []addressJSON{}, Error: broken[name].Error()})
	}
	healthy := !slices.ContainsFunc(all, func(p poolJSON) bool { return p.Error != "" })
	return cli.View{JSON: all, Names: poolsOf(configs), Table: func(w io.Writer, t cli.Terminal) error {
		return printApart(w, all, func(p poolJSON) error { return p.print(w, t) })
	}}, cli.Unhealthy(healthy)
}

// storeTimeout bounds the questions to the store.
const storeTimeout = 15 * time.Second

// lockTimeout bounds the wait for a pool of which another process has the lock: an agent that is stopped keeps it.
const lockTimeout = 3 * time.Second

// show returns the pool. What this host has is known without the store.
func (a poolAccess) show(ctx context.Context) (poolJSON, error) {
	ctx, stop := context.WithTimeout(ctx, storeTimeout)
	defer stop()
	c := a.config
	p := poolJSON{Pool: c.Pool, Store: a.store, Ranges: c.Ranges, Reserved: append([]netip.Prefix{}, c.Reserved...), BlockSize: c.BlockSize, Mode: c.Mode.String(), VXLAN: c.VXLAN, Families: []familyJSON{}, Blocks: []blockJSON{}, Addresses: []addressJSON{}}
	local, stopLocal := context.WithTimeoutCause(ctx, lockTimeout, fmt.Errorf("another process has its lock for more than %s", lockTimeout))
	defer stopLocal()
	usage, err := a.pool.Usage(local)
	if err != nil {
		return p, err
	}
	p.Verified = usage.Verified
	overview, unread := a.pool.Show(ctx)
	_, host, err := a.open()
	p.Error = cli.ErrorText(cmp.Or(unread, err))
	p.addBlocks(overview, usage, host)
	for _, e := range overview.Addresses {
		p.Addresses = append(p.Addresses, addressJSON{e.Address, e.State, ownerOf(e.Host, host), e.Job, e.Published && e.State == ipam.Held})
	}
	p.addFamilies(c, usage)
	return p, nil
}

func ownerOf(h, this ipam.Host) ownerJSON {
	return ownerJSON{h.NodeName, h.NodeID, h.Instance, h.Instance == this.Instance}
}

// addBlocks adds those of the store, then those that only this host has on record.
func (p *poolJSON) addBlocks(overview pool.Overview, usage pool.Usage, host ipam.Host) {
	own := map[ipam.Block]pool.BlockUsage{}
	for _, b := range usage.Blocks {
		own[b.Block] = b
	}
	for _, e := range overview.Blocks {
		b := blockJSON{Block: e.Block, Owner: ownerOf(e.Host, host), State: "held", Claimed: e.Claimed, Endpoint: e.Endpoint}
		if u, ok := own[e.Block]; ok && b.Owner.ThisHost {
			b.use(u)
			delete(own, e.Block)
		}
		p.Blocks = append(p.Blocks, b)
	}
	for _, u := range own {
		b := blockJSON{Block: u.Block, Owner: ownerOf(host, host)}
		b.use(u)
		p.Blocks = append(p.Blocks, b)
	}
	slices.SortStableFunc(p.Blocks, func(a, b blockJSON) int { return a.Block.Compare(b.Block) })
}

func (b *blockJSON) use(u pool.BlockUsage) {
	b.State, b.Used, b.Cooling, b.Free = u.State, &u.Used, &u.Cooling, &u.Free
}

func (p *poolJSON) addFamilies(c *ipam.Config, usage pool.Usage) {
	for _, family := range c.BlockFamilies() {
		f := familyJSON{Family: family, Blocks: c.Slots(family).Count()}
		for _, b := range p.Blocks {
			if ipam.FamilyOf(b.Block.Addr()) == family {
				f.Claimed++
			}
		}
		for _, u := range usage.Families {
			if u.Family == family {
				f.Used, f.Cooling, f.Free = u.Used, u.Cooling, u.Free
			}
		}
		p.Families = append(p.Families, f)
	}
}

func (p poolJSON) print(w io.Writer, t cli.Terminal) error {
	if p.Store == "" {
		return cli.PrintLines(w, "pool "+p.Pool+" cannot be used: "+p.Error)
	}
	if err := cli.PrintLines(w, p.summary()...); err != nil {
		return err
	}
	families := cli.NewTable("FAMILY", "BLOCKS CLAIMED", "OF", "USED HERE", "COOLING", "FREE")
	for _, f := range p.Families {
		families.Add(fmt.Sprintf("IPv%d", f.Family), fmt.Sprint(f.Claimed), fmt.Sprint(f.Blocks), fmt.Sprint(f.Used), fmt.Sprint(f.Cooling), fmt.Sprint(f.Free))
	}
	for _, table := range []cli.Table{families, p.blockTable(), p.addressTable()} {
		if len(table) < 2 {
			continue
		}
		if err := table.Print(w, t.Colours); err != nil {
			return err
		}
	}
	if p.Error == "" {
		return nil
	}
	return cli.PrintLines(w, "the blocks of other hosts are not known: "+p.Error)
}

// summary describes the configuration, in one line and one for each range.
func (p poolJSON) summary() []string {
	text := []string{fmt.Sprintf("pool %s, store %s, mode %s, blocks /%d and /%d", p.Pool, p.Store, p.Mode, p.BlockSize.IPv4, p.BlockSize.IPv6)}
	if (p.VXLAN != ipam.VXLAN{}) {
		text = append(text, fmt.Sprintf("  VXLAN %d, UDP port %d", p.VXLAN.ID, p.VXLAN.Port))
	}
	for _, r := range p.Ranges {
		described := fmt.Sprintf("  range %s: %s to %s", r.Subnet, r.Start, r.End)
		if r.Gateway.IsValid() {
			described += ", gateway " + r.Gateway.String()
		}
		if len(r.Exclude) > 0 {
			described += ", without " + texts.Join(r.Exclude, " ")
		}
		text = append(text, described)
	}
	if len(p.Reserved) > 0 {
		text = append(text, "  reserved "+texts.Join(p.Reserved, " "))
	}
	return text
}

func (p poolJSON) blockTable() cli.Table {
	t := cli.NewTable("BLOCK", "OWNER", "STATE", "USED", "COOLING", "FREE", "AGE")
	for _, b := range p.Blocks {
		claimed := "-"
		if !b.Claimed.IsZero() {
			claimed = cli.Age(time.Since(b.Claimed))
		}
		t.Add(b.Block.String(), b.Owner.String(), b.State, number(b.Used), number(b.Cooling), number(b.Free), claimed)
	}
	return t
}

func (p poolJSON) addressTable() cli.Table {
	t := cli.NewTable("ADDRESS", "STATE", "OWNER", "JOB", "GROUP", "KEY", "ALLOCATION")
	for _, a := range p.Addresses {
		job := strings.Trim(a.Job.Namespace+"/"+a.Job.Job, "/")
		state := string(a.State)
		if a.Published {
			state = "published"
		}
		t.Add(a.Address.String(), state, a.Owner.String(), cli.OrDash(job), cli.OrDash(a.Job.Group), cli.OrDash(a.Job.Key), cli.OrDash(a.Job.Allocation))
	}
	return t
}

// String names the host.
func (o ownerJSON) String() string {
	name := cli.OrDash(cmp.Or(o.Node, o.NodeID, o.Instance))
	if o.ThisHost {
		name += " (this host)"
	}
	return name
}

func number(n *int) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}
