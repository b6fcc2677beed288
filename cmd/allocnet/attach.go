// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func newAttach(s *settings) *cobra.Command {
	var w wishes
	var netns string
	cmd := &cobra.Command{
		Use:   "attach ID",
		Short: "Attach an allocation to its networks",
		Long: `Attach an allocation to its networks, and print what it got.

Without --netns a namespace is made and pinned as /run/netns/ID; detach removes
it. Without --primary only the extra networks are attached, to a namespace that
has its main network already.

It is all or nothing: when one network fails, the others are gone again. What
may get better is tried three times. Repeated with the same networks it prints
what stands.`,
		Example: `  allocnet attach web-1 --primary web --networks storage,mgmt@net5 --publish 8080:80/tcp
  allocnet attach db-1 --netns /run/netns/db --networks '[{"name": "storage", "ips": ["10.1.0.9/24"]}]'
  allocnet attach web-2 --primary web --publish http=8081:80 --json`,
		Args: oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			request, err := w.request(args[0])
			if err != nil {
				return err
			}
			request.Netns = netns
			engine, err := s.engine(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, unix.SIGTERM)
			defer stop()
			allocation, err := engine.Setup(ctx, request)
			if err != nil {
				return err
			}
			return printAllocation(cmd.OutOrStdout(), allocation, s.json)
		},
	}
	w.register(cmd.Flags())
	cmd.Flags().StringVar(&netns, "netns", "", "path of the network namespace (default one made as /run/netns/ID)")
	return cmd
}

func newDetach(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "detach ID",
		Short: "Take an allocation's networks down",
		Long: `Take down all networks of an allocation, and remove the namespace if attach made
it. An allocation that is not set up, or whose namespace is gone, is no error.

What cannot be removed stays recorded; the next detach tries again.`,
		Example: `  allocnet detach web-1`,
		Args:    oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			engine, err := s.engine(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := engine.Teardown(cmd.Context(), args[0]); err != nil {
				return err
			}
			if s.json {
				return printJSON(cmd.OutOrStdout(), map[string]string{"id": args[0], "detached": "all"})
			}
			return nil
		},
	}
}

// oneID is the argument check of the commands on one allocation.
func oneID(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage(fmt.Errorf("got %d arguments: want the ID of one allocation", len(args)))
	}
	return nil
}
