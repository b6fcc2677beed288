// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package traffic has the commands on which traffic of allocations passes.
package traffic

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/state"
)

// NewPolicy returns the command policy, which completes IDs with those that are recorded.
func NewPolicy(s *cli.Settings, recordedIDs cli.Complete) *cobra.Command {
	return newPolicy(s, recordedIDs, readFilters)
}

// newPolicy is NewPolicy with what reads the filters of the host.
func newPolicy(s *cli.Settings, recordedIDs cli.Complete, filters func(context.Context) hostFilters) *cobra.Command {
	return cli.WithCommands(&cobra.Command{
		Use:   "policy",
		Short: "Show and test which traffic of allocations passes",
		Long: `Show and test which traffic of allocations passes: what isolation of networks and the
rules of ` + isolation.DefaultFile + ` say. Which allocations may attach to a network,
"allocnet networks" shows.`,
	}, newShow(s, recordedIDs), newTest(s, recordedIDs, filters))
}

// rulesFlag names other rules than those of the host.
type rulesFlag struct{ file string }

func (f *rulesFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "rules", isolation.DefaultFile, "file of the rules, also one that is to be installed")
}

// load reads the rules. A file that is named has to exist: a host without rules would look the same.
func (f *rulesFlag) load(cmd *cobra.Command) (isolation.Rules, error) {
	if cmd.Flags().Changed("rules") {
		if _, err := os.Stat(f.file); err != nil {
			return isolation.Rules{}, cli.Usage(fmt.Errorf("--rules: %w", err))
		}
	}
	return isolation.Load(f.file)
}

// traffic is what decides which traffic of the allocations of a host passes.
type traffic struct {
	rules       isolation.Rules
	members     []isolation.Member
	allocations []*hook.Allocation
}

// readTraffic reads the rules and the records. What can be read is in the result even with an error.
func readTraffic(cmd *cobra.Command, s *cli.Settings, f *rulesFlag) (traffic, *hook.Engine, error) {
	var t traffic
	var err error
	if t.rules, err = f.load(cmd); err != nil {
		return t, nil, err
	}
	engine, err := s.Reader(cmd.ErrOrStderr())
	if err != nil {
		return t, nil, err
	}
	return t, engine, t.read(cmd.Context(), engine)
}

func (t *traffic) read(ctx context.Context, engine *hook.Engine) error {
	var errs []error
	for a, err := range engine.List(ctx) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		t.allocations = append(t.allocations, a)
	}
	var err error
	if t.members, err = engine.Isolation().Members(ctx); len(errs) > 0 {
		err = errors.Join(errs...) // the same ones, with their IDs
	}
	remotes, errRemotes := engine.Isolation().Remotes()
	t.members = append(t.members, remotes...)
	return errors.Join(err, errRemotes)
}

// member returns an attachment as rules see it; nil for one whose packets do not pass the host.
func (t *traffic) member(id string, n hook.Attachment) *isolation.Member {
	container := state.ContainerIDOf(id, n.Interface, n.Primary)
	at := slices.IndexFunc(t.members, func(m isolation.Member) bool { return m.ID == container })
	if at < 0 {
		return nil
	}
	return &t.members[at]
}

// verdict is whether something passes, in the colour of that.
func verdict(allowed bool) cli.Cell {
	if allowed {
		return cli.Coloured(cli.Green, "allowed")
	}
	return cli.Coloured(cli.Red, "denied")
}
