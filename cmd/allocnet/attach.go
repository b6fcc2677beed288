// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/hook"
)

func newAttach(s *settings) *cobra.Command {
	var flags requestFlags
	var netns, file string
	cmd := &cobra.Command{
		Use:   "attach ID",
		Short: "Attach an allocation to its networks",
		Long: `Attach an allocation to its networks, and print what it got.

Without --netns a namespace is made and pinned as /run/netns/ID; detach removes
it. Without --primary only the extra networks are attached, to a namespace that
has its main network already.

It is all or nothing: when one network fails, the others are gone again. What
may get better is tried three times. Repeated with the same networks it prints
what stands. --file has the same in HCL, with primary, networks, publish and netns.

An allocation that is set up already, and runs, gets further networks without
--primary and --netns; what it has is not touched.`,
		Example: `  allocnet attach web-1 --primary web --networks storage,mgmt@net5 --publish 8080:80/tcp
  allocnet attach web-1 --networks mgmt@data0
  allocnet attach db-1 --netns /run/netns/db --networks '[{"name": "storage", "ips": ["10.1.0.9/24"]}]'
  allocnet attach web-2 --primary web --publish http=8081:80 --json`,
		Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			request, err := flags.request(args[0])
			if err != nil {
				return err
			}
			request.Netns = netns
			if file != "" {
				if request, err = config.LoadUnit(file, args[0]); err != nil {
					return err
				}
			}
			engine, err := s.engine(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, unix.SIGTERM)
			defer stop()
			allocation, err := engine.Setup(ctx, request)
			if errors.Is(err, hook.ErrConflict) && request.Primary == nil && request.Netns == "" {
				allocation, err = engine.Extend(ctx, request)
			}
			if err != nil {
				return err
			}
			s.retryLater(engine, cmd.ErrOrStderr())
			return printAllocation(cmd.OutOrStdout(), allocation, s.json)
		},
	}
	flags.register(cmd.Flags())
	cmd.Flags().StringVar(&netns, "netns", "", "path of the network namespace (default one made as /run/netns/ID)")
	cmd.Flags().StringVar(&file, "file", "", "a .hcl file that says the networks, instead of flags")
	for _, flag := range []string{"netns", "primary", "networks", "publish"} {
		cmd.MarkFlagsMutuallyExclusive("file", flag)
	}
	return cmd
}

func newDetach(s *settings) *cobra.Command {
	iface := ""
	cmd := &cobra.Command{
		Use:   "detach ID",
		Short: "Take an allocation's networks down",
		Long: `Take down all networks of an allocation, and remove the namespace if attach made
it. An allocation that is not set up, or whose namespace is gone, is no error.

With --interface only that network is taken down, and the allocation stays. Its
primary, and the last network that it was set up with, stay as long as it does.

What cannot be removed stays recorded; the next detach tries again.`,
		Example: `  allocnet detach web-1 --interface net2
  allocnet detach web-1`,
		Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := s.engine(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			detached := iface
			if iface != "" {
				err = engine.Detach(cmd.Context(), args[0], iface)
			} else {
				detached = "all"
				err = engine.Teardown(cmd.Context(), args[0])
			}
			if err != nil {
				return err
			}
			s.retryLater(engine, cmd.ErrOrStderr())
			if s.json {
				return printJSON(cmd.OutOrStdout(), map[string]string{"id": args[0], "detached": detached})
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&iface, "interface", "", "the one interface to take down (default all)")
	return cmd
}

// oneID is the argument check of the commands on one allocation.
func oneID(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage(fmt.Errorf("got %d arguments: want the ID of one allocation", len(args)))
	}
	return nil
}
