// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/state"
)

const detachLong = `Detach an allocation from all networks, and remove the namespace if attach created
it. An allocation that is not set up is no error, and the command says so; nor is one
whose namespace is gone.

With --interface, only this attachment is removed. With --network, all attachments to that
network are. You cannot remove the primary, or the last of the networks that the
allocation was set up with.

With --all, all allocations of this host are detached, those of jobs that run, too: it is
for a host that is taken out of service. Drain a node of Nomad before.

An attachment that cannot be removed stays recorded; the next detach retries.

The first 8 characters or more of an ID of Nomad are enough if no other ID begins with
them. Other IDs are complete: web-1 never detaches web-10.`

type detachFlags struct {
	iface, network string
	all            bool
}

func newDetach(s *cli.Settings) *cobra.Command {
	var f detachFlags
	cmd := &cobra.Command{
		Use:     "detach ID",
		Aliases: []string{"rm"},
		Short:   "Detach an allocation from its networks",
		Long:    detachLong,
		Example: `  allocnet detach web-1 --interface net2
  allocnet detach web-1 --network storage
  allocnet detach web-1
  allocnet detach --all`,
		Args:              f.wantArguments,
		ValidArgsFunction: s.CompleteFirst(recordedIDs),
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args) },
	}
	cmd.Flags().StringVar(&f.iface, "interface", "", "the interface to detach (default all)")
	cmd.Flags().StringVar(&f.network, "network", "", "the network to detach (default all)")
	cmd.Flags().BoolVar(&f.all, "all", false, "detach all allocations of this host")
	cmd.MarkFlagsMutuallyExclusive("interface", "network", "all")
	return cmd
}

func (f *detachFlags) wantArguments(cmd *cobra.Command, args []string) error {
	if f.all {
		return cli.WantArguments(0, 0, "no ID with --all")(cmd, args)
	}
	for name, value := range map[string]string{"interface": f.iface, "network": f.network} {
		if value == "" && cmd.Flags().Changed(name) { // a variable of a script that is not set detaches nothing
			return cli.Usage(fmt.Errorf("--%s is empty: want one, or omit it to detach all", name))
		}
	}
	return oneID(cmd, args)
}

type detachedJSON struct {
	ID string `json:"id"`
	// Detached is the interface, the network, or "all".
	Detached string `json:"detached"`
	// Recorded is whether the allocation was set up here.
	Recorded bool `json:"recorded"`
}

func (f *detachFlags) run(cmd *cobra.Command, s *cli.Settings, args []string) error {
	engine, err := s.Engine(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if f.all {
		return detachAll(cmd, s, engine)
	}
	id, err := resolveToRemove(s, cmd.ErrOrStderr(), engine, args[0])
	if err != nil {
		return err
	}
	_, err = engine.Status(cmd.Context(), id)
	done := detachedJSON{id, "all", !errors.Is(err, state.ErrNotFound)}
	switch {
	case f.iface != "":
		done.Detached, err = f.iface, engine.Detach(cmd.Context(), id, f.iface)
	case f.network != "":
		done.Detached, err = f.network, detachNetwork(cmd.Context(), engine, id, f.network)
	default:
		err = engine.Teardown(cmd.Context(), id)
	}
	if err != nil {
		return err
	}
	retryLater(s, engine, cmd.ErrOrStderr())
	if s.JSON {
		return cli.PrintJSON(cmd.OutOrStdout(), done)
	}
	if !done.Recorded {
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "allocnet: allocation %s was not set up here\n", id)
	}
	return err
}

func detachNetwork(ctx context.Context, engine *hook.Engine, id, network string) error {
	a, err := engine.Status(ctx, id)
	if err != nil {
		return err
	}
	var others []string
	found := false
	for _, attachment := range a.Attachments {
		if attachment.Network != network {
			others = append(others, attachment.Network)
			continue
		}
		found = true
		err = errors.Join(err, engine.Detach(ctx, id, attachment.Interface))
	}
	if !found {
		return cli.Usage(fmt.Errorf("allocation %s is not attached to network %q: it has %s", id, network, strings.Join(others, ", ")))
	}
	return err
}

// detachAll goes on after an allocation that cannot be detached, or whose record cannot be read.
func detachAll(cmd *cobra.Command, s *cli.Settings, engine *hook.Engine) error {
	all, failed := []detachedJSON{}, error(nil)
	s.Meanwhile(cmd.ErrOrStderr(), "detaching all allocations of this host", func() {
		for a, err := range engine.List(cmd.Context()) {
			if err == nil {
				err = engine.Teardown(cmd.Context(), a.ID)
			}
			if err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			all = append(all, detachedJSON{a.ID, "all", true})
		}
	})
	if failed != nil {
		retryLater(s, engine, cmd.ErrOrStderr())
	}
	if s.JSON {
		return errors.Join(failed, cli.PrintJSON(cmd.OutOrStdout(), all))
	}
	if len(all) == 0 && failed == nil {
		_, failed = fmt.Fprintln(cmd.ErrOrStderr(), "allocnet: no allocation is set up here")
	}
	lines := make([]string, len(all))
	for i, d := range all {
		lines[i] = "detached " + d.ID
	}
	return errors.Join(failed, cli.PrintLines(cmd.OutOrStdout(), lines...))
}
