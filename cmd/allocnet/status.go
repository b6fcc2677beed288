// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
)

const statusLong = `Show one allocation, or all. The command runs no plugin and takes no lock, so it
shows the momentary state of an allocation that is being set up or torn down. The
first characters of an ID are enough if no other ID begins with them.

Phases: adding (set-up in flight or interrupted), attached, deleting (teardown in
flight or interrupted), pending (teardown failed; detach retries), reattaching (a
repair detached it and has not attached it again), missing (attached on record, but its
namespace or interface is gone: "allocnet repair" or "allocnet gc").

On a terminal, Nomad's IDs are shortened, and the table is made to fit; --full shows
all columns with complete IDs, as a pipe gets them. NO_COLOR turns colours off.
--network and --phase also leave the other attachments of an allocation out.

Root also sees, of one allocation and with --json, what isolation has dropped of each
attachment: packets to it and from it that were denied, and those that it has forged.

A template of --template gets what --json prints, with the same keys: a list, or one
object if an ID is given.`

type statusFlags struct {
	filter
	cli.Display
	full bool
}

func newStatus(s *cli.Settings) *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:     "status [ID]",
		Aliases: []string{"ls", "ps"},
		Short:   "Show allocations and their attachments",
		Long:    statusLong,
		Example: `  allocnet status
  allocnet status web-1
  allocnet status web-1 --json
  allocnet status --network storage --phase attached -q
  allocnet status -t '{{range .}}{{.id}}{{range .attachments}} {{.interface}}{{end}}{{"\n"}}{{end}}'`,
		Args:              cli.WantArguments(0, 1, "one ID or none"),
		ValidArgsFunction: s.CompleteFirst(recordedIDs),
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args) },
	}
	f.register(cmd.Flags())
	f.Register(cmd, "IDs")
	cmd.Flags().BoolVar(&f.full, "full", false, "show complete IDs and all columns on a terminal, too")
	return cmd
}

func (f *statusFlags) run(cmd *cobra.Command, s *cli.Settings, args []string) error {
	if err := f.validate(); err != nil {
		return err
	}
	engine, err := s.Reader(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	return f.Show(cmd, s.JSON, func(ctx context.Context) (cli.View, error) {
		if len(args) == 0 {
			return f.viewAll(ctx, engine)
		}
		return f.viewOne(ctx, engine, args[0])
	})
}

func (f *statusFlags) viewOne(ctx context.Context, engine *hook.Engine, prefix string) (cli.View, error) {
	id, err := engine.Resolve(prefix)
	if err != nil {
		return cli.View{}, err
	}
	a, err := engine.Status(ctx, id)
	if err != nil {
		return cli.View{}, err
	}
	if err := addDenied(ctx, engine, a); err != nil {
		return cli.View{}, err
	}
	if a = f.selected(engine.Current(a)); a == nil {
		return cli.View{}, cli.Usage(fmt.Errorf("allocation %s has no attachment that the filters select", id))
	}
	v := f.view([]*hook.Allocation{a}, []string{id})
	v.JSON = allocationJSON{a, a.NetworkStatus()}
	return v, nil
}

// viewAll returns the readable records, and the errors of the others: an unknown record
// may be one that the filter selects.
func (f *statusFlags) viewAll(ctx context.Context, engine *hook.Engine) (cli.View, error) {
	var selected []*hook.Allocation
	var ids []string
	var errs []error
	for a, err := range engine.List(ctx) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		ids = append(ids, a.ID)
		if a = f.selected(engine.Current(a)); a != nil {
			selected = append(selected, a)
		}
	}
	errs = append(errs, addDenied(ctx, engine, selected...))
	return f.view(selected, ids), errors.Join(errs...)
}

// addDenied fills in what isolation has dropped, which only root can read.
func addDenied(ctx context.Context, engine *hook.Engine, all ...*hook.Allocation) error {
	if cli.RequireRoot() != nil {
		return nil
	}
	return engine.Isolation().AddDenied(ctx, all...)
}

// view shows allocations. Shortened IDs differ from those of all allocations.
func (f *statusFlags) view(selected []*hook.Allocation, all []string) cli.View {
	list := make([]allocationJSON, len(selected))
	v := cli.View{JSON: list}
	for i, a := range selected {
		list[i] = allocationJSON{a, a.NetworkStatus()}
		v.Names = append(v.Names, a.ID)
	}
	v.Table = func(w io.Writer, t cli.Terminal) error {
		if f.full {
			t.Columns = 0
		}
		return printAllocations(w, t, selected, shortIDs(all))
	}
	return v
}
