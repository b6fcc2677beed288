// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/internal/texts"
)

type release struct {
	node       string
	yes, force bool
	json       bool
}

type releasedJSON struct {
	Pool      string       `json:"pool"`
	Blocks    []ipam.Block `json:"blocks"`
	Addresses []netip.Addr `json:"addresses"`
}

func newIPAMRelease(s *cli.Settings) *cobra.Command {
	var r release
	cmd := &cobra.Command{
		Use:   "release --node NODE [POOL]",
		Short: "Release what a node that is gone has of a pool, or of all pools",
		Long: `Release the blocks and reserved addresses of a node that is gone, of one pool or of all,
so that other hosts can have them. NODE is the ID of the Nomad node, or its name if only one
node with blocks has it. The command shows what it would release, and asks.

If the node still runs, its allocations keep their addresses, and other hosts assign the same
ones. So the command refuses if Nomad knows the node, has an allocation of it that has not
ended, or does not answer. With --force, which you need after you have switched off the
node, it does not ask Nomad.

--json prints a list of what was released, and needs --yes.`,
		Example:           `  allocnet ipam release --node 6ee5b9c4-9c1a-4cf0-9f50-0a0ad44dbb37 --yes`,
		Args:              atMostOnePool,
		ValidArgsFunction: s.CompleteFirst(poolNames),
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd, s, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&r.node, "node", "", "ID or name of the node (required)")
	flags.BoolVarP(&r.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&r.force, "force", false, "release even if the node may be alive")
	return cmd
}

func (r *release) run(cmd *cobra.Command, s *cli.Settings, args []string) error {
	if r.node == "" {
		return cli.Usage(errors.New("--node is required: the ID or the name of a Nomad node"))
	}
	if r.json = s.JSON; r.json && !r.yes {
		return errJSONAsks
	}
	configs, broken, err := configsOf(s, args)
	if err != nil {
		return err
	}
	if len(broken) > 0 {
		return fmt.Errorf("nothing is released; name a pool whose configuration is valid: %w", joined(broken))
	}
	var opened []poolAccess
	for _, c := range configs {
		a, err := access(c)
		if err != nil {
			return fmt.Errorf("pool %s: %w", c.Pool, err)
		}
		opened = append(opened, a)
	}
	return r.release(cmd, opened)
}

type possession struct {
	poolAccess
	blocks    []ipam.Block
	addresses []netip.Addr
}

func (p possession) String() string {
	return fmt.Sprintf("pool %s: %s", p.config.Pool, cli.OrDash(strings.Join(append(texts.Of(p.blocks), texts.Of(p.addresses)...), " ")))
}

func (r *release) release(cmd *cobra.Command, opened []poolAccess) error {
	node, found, err := r.find(cmd.Context(), opened)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if r.json {
		out = io.Discard
	}
	if len(found) == 0 {
		_, _ = fmt.Fprintf(out, "node %s has nothing\n", cli.Printable(r.node)) // nothing is to be reported
	}
	for _, p := range found {
		_, _ = fmt.Fprintf(out, "node %s has of %s\n", cli.Printable(node), p) // the last write reports
	}
	for _, p := range found {
		if err := r.allowed(cmd.Context(), node, p); err != nil {
			return err
		}
	}
	if !r.yes && len(found) > 0 {
		if err := confirm(cmd.InOrStdin(), out, "Release this?", "nothing is released"); err != nil {
			return err
		}
	}
	released, err := r.each(cmd.Context(), out, node, found)
	if r.json {
		err = errors.Join(err, cli.PrintJSON(cmd.OutOrStdout(), released))
	}
	return err
}

func (r *release) each(ctx context.Context, out io.Writer, node string, found []possession) ([]releasedJSON, error) {
	released := []releasedJSON{}
	for _, p := range found {
		blocks, addresses, err := p.pool.ReleaseNode(ctx, node)
		released = append(released, releasedJSON{p.config.Pool, append([]ipam.Block{}, blocks...), append([]netip.Addr{}, addresses...)})
		_, _ = fmt.Fprintf(out, "released of %s\n", possession{p.poolAccess, blocks, addresses})
		if err != nil {
			return released, fmt.Errorf("pool %s: %w", p.config.Pool, err)
		}
	}
	return released, nil
}

func (r *release) find(ctx context.Context, opened []poolAccess) (id string, found []possession, err error) {
	var ids []string
	for _, a := range opened {
		overview, err := a.pool.Show(ctx)
		if err != nil {
			return "", nil, fmt.Errorf("pool %s: %w", a.config.Pool, err)
		}
		p := possession{poolAccess: a}
		for _, b := range overview.Blocks {
			if r.matches(b.Host) {
				p.blocks, ids = append(p.blocks, b.Block), append(ids, b.Host.NodeID)
			}
		}
		for _, address := range overview.Addresses {
			if address.State == ipam.Held && r.matches(address.Host) {
				p.addresses, ids = append(p.addresses, address.Address), append(ids, address.Host.NodeID)
			}
		}
		if len(p.blocks)+len(p.addresses) > 0 {
			found = append(found, p)
		}
	}
	if ids = cli.Distinct(ids); len(ids) > 1 {
		return "", nil, cli.Usage(fmt.Errorf("--node %q: is the name of the nodes %s: want an ID", r.node, strings.Join(ids, ", ")))
	}
	return cmp.Or(strings.Join(ids, ""), r.node), found, nil
}

func (r *release) matches(h ipam.Host) bool {
	return h.NodeID != "" && (h.NodeID == r.node || h.NodeName == r.node)
}

// allowed returns an error unless the node is gone, as the store of the pool knows it.
func (r *release) allowed(ctx context.Context, node string, p possession) error {
	if _, this, err := p.open(); err == nil && this.NodeID == node {
		return cli.Usage(fmt.Errorf("node %s is this host, so nothing is released: its agent releases blocks that it does not need", node))
	}
	if !r.force {
		gone, err := p.gone(ctx, node)
		if err != nil {
			return cli.Usage(fmt.Errorf("it is not known whether node %s is gone, so nothing is released (--force releases nevertheless): %w", node, err))
		}
		if !gone {
			return cli.Usage(fmt.Errorf("nomad knows node %s, or an allocation of it that has not ended, so nothing is released: two hosts would assign the same addresses. If the node is switched off for good, use --force", node))
		}
	}
	return nil
}

// errJSONAsks is --json where a question would be between the JSON.
var errJSONAsks = cli.Usage(errors.New("--json: want --yes, too: a question is no JSON"))

// confirm asks a person. The error is what a no means.
func confirm(in io.Reader, out io.Writer, question, no string) error {
	if file, ok := in.(*os.File); ok && !cli.IsTerminal(file) {
		return cli.Usage(errors.New("standard input is no terminal: want --yes"))
	}
	_, _ = fmt.Fprint(out, question+" [y/N] ") // the answer decides
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer))) {
		return cli.Usage(errors.New(no))
	}
	return nil
}
