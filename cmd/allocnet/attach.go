// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/state"
)

const attachLong = `Attach an allocation to its networks, and print the attachments.

Without --netns, allocnet creates a namespace and pins it as /run/netns/ID; detach
removes it. With --netns and without --primary, only the extra networks are attached, to
a namespace that has its main network already. --primary= makes a namespace that has
extra networks only.

The set-up is all or nothing: if one network fails, the others are removed again.
Transient errors are retried, three attempts in all. If a plugin says that it cannot have
something now, as an address while no server of the pool answers, no attempt begins later
than 5 s after the first: try again later. Without --json, the command prints to stderr
what it waits for if it takes longer than two seconds. Repeated with the same networks, it
prints the existing attachments. --file reads primary, networks, publish,
dns, ingress, egress and netns from a file in HCL.

To attach an allocation that is set up to further networks, leave out --primary and
--netns; its existing attachments do not change. An ID that is not set up is refused then.`

type attachFlags struct {
	requestFlags
	netns, file string
}

func newAttach(s *cli.Settings) *cobra.Command {
	var f attachFlags
	cmd := &cobra.Command{
		Use:   "attach ID",
		Short: "Attach an allocation to its networks",
		Long:  attachLong,
		Example: `  allocnet attach web-1 --primary web --networks storage,mgmt@net5 --publish 8080:80/tcp
  allocnet attach web-1 --networks mgmt@data0
  allocnet attach db-1 --netns /run/netns/db --networks '[{"name": "storage", "ips": ["10.89.0.9/16"]}]'
  allocnet attach web-2 --primary web --publish http=8081:80 --publish 5000-5003:5000-5003/udp --json`,
		Args:              oneID,
		ValidArgsFunction: s.CompleteFirst(recordedIDs),
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args[0]) },
	}
	f.register(cmd.Flags())
	cmd.Flags().StringVar(&f.netns, "netns", "", "path of the network namespace (default a new one, pinned as /run/netns/ID)")
	cmd.Flags().StringVar(&f.file, "file", "", "a .hcl file with the networks, instead of flags")
	for _, flag := range []string{"netns", "primary", "networks", "publish", "dns", "ingress", "egress"} {
		cmd.MarkFlagsMutuallyExclusive("file", flag)
	}
	return cmd
}

func (f *attachFlags) run(cmd *cobra.Command, s *cli.Settings, id string) error {
	request, err := f.load(id)
	if err != nil {
		return err
	}
	shown := waiting(cmd.ErrOrStderr(), request)
	engine, err := s.Engine(shown, shown)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if f.file == "" && !cmd.Flags().Changed("primary") {
		if err := requirePrimary(ctx, engine, request); err != nil {
			return err
		}
	}
	allocation, err := s.Reported(shown, func() (*hook.Allocation, error) { return engine.SetupOrExtend(ctx, request) })
	if err != nil {
		return err
	}
	retryLater(s, engine, cmd.ErrOrStderr())
	return s.Output(cmd.OutOrStdout(), allocationJSON{allocation, allocation.NetworkStatus()}, func(w io.Writer, t cli.Terminal) error {
		return printAllocations(w, t, []*hook.Allocation{allocation}, shortIDs([]string{allocation.ID}))
	})
}

// requirePrimary refuses a new namespace with further networks alone: the ID may be mistyped.
func requirePrimary(ctx context.Context, engine *hook.Engine, r hook.Request) error {
	if r.Primary != nil || r.Netns != "" || len(r.Networks) == 0 {
		return nil
	}
	if _, err := engine.Status(ctx, r.ID); !errors.Is(err, state.ErrNotFound) {
		return nil // that of a record that cannot be read comes from the engine
	}
	return &hook.RequestError{Field: "primary", Reason: fmt.Sprintf("allocation %s is not set up, so there is nothing to add networks to: add --primary NETWORK to set it up, "+
		"--netns PATH if a namespace has its main network already, or --primary= for a new namespace without one", r.ID)}
}

func (f *attachFlags) load(id string) (hook.Request, error) {
	request, err := f.request(id)
	if err != nil || f.file == "" {
		request.Netns = f.netns
		return request, err
	}
	return config.LoadUnit(f.file, id)
}

var oneID = cli.WantArguments(1, 1, "the ID of one allocation")

// waiting returns the progress of attaching an allocation. It is for its engine, too: the first
// engine of a boot removes what the boots before have left.
func waiting(stderr io.Writer, r hook.Request) *cli.Progress {
	return cli.NewProgress(stderr, fmt.Sprintf("%s: waiting for the plugins of %s", r.ID, strings.Join(namesOf(r), ", ")))
}

func namesOf(r hook.Request) []string {
	var names []string
	if r.Primary != nil {
		names = append(names, r.Primary.Name)
	}
	for _, n := range r.Networks {
		names = append(names, n.Name)
	}
	return names
}
