// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/internal/capture"
	"github.com/allocnet/allocnet/internal/netns"
)

// capturing is what the flags of capture say.
type capturing struct{ count, seconds int }

func newCapture(s *cli.Settings) *cobra.Command {
	var c capturing
	cmd := &cobra.Command{
		Use:   "capture ID [INTERFACE]",
		Short: "Write the packets of an allocation for tcpdump or Wireshark",
		Long: `Write the packets that an allocation sends and receives to standard output, in the format
pcapng: of one interface, or of all, until Ctrl-C. tcpdump need not be in the allocation; on
the host, or on another one, it shows and selects packets (tcpdump -r -).

How many packets there were, and how many came too fast, is printed at the end. The first
characters of an ID are enough if no other ID begins with them.`,
		Example: `  allocnet capture web-1 --seconds 1 > web-1.pcapng
  allocnet capture web-1 net1 --count 100 --seconds 1 > net1.pcapng`,
		Args: cli.WantArguments(1, 2, "the ID of an allocation, and an interface or none for all"),
		ValidArgsFunction: s.Completion(func(s *cli.Settings, cmd *cobra.Command, args []string, word string) []string {
			switch len(args) {
			case 0:
				return recordedIDs(s, cmd, args, word)
			case 1:
				return interfacesOf(s, cmd, args[0], true)
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, s, args) },
	}
	cmd.Flags().IntVar(&c.count, "count", 0, "end after so many packets (default: no limit)")
	cmd.Flags().IntVar(&c.seconds, "seconds", 0, "end after so many seconds (default: no limit)")
	return cmd
}

func (c *capturing) run(cmd *cobra.Command, s *cli.Settings, args []string) error {
	const most = 1_000_000_000
	if c.count < 0 || c.seconds < 0 || c.seconds > most {
		return cli.Usage(fmt.Errorf("--count %d, --seconds %d: want 0 or more, and %d seconds at most", c.count, c.seconds, most))
	}
	if file, ok := cmd.OutOrStdout().(*os.File); ok && cli.IsTerminal(file) {
		return cli.Usage(errors.New("standard output is a terminal: want a file (> FILE), or a reader (| tcpdump -r -)"))
	}
	engine, err := s.Engine(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	id, err := engine.Resolve(args[0])
	if err != nil {
		return err
	}
	path, closeNamespace, err := engine.OpenNamespace(id)
	if err != nil {
		return err
	}
	defer closeNamespace() //nolint:errcheck // only entered
	ns, err := netns.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close() //nolint:errcheck // only entered
	source, err := openSource(ns, id, append(args, "")[1])
	if err != nil {
		return err
	}
	defer source.Close() //nolint:errcheck // only read
	ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if c.seconds > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, time.Duration(c.seconds)*time.Second)
		defer end()
	}
	return c.copy(ctx, cmd, s, ns, source)
}

// openSource opens an interface of a namespace; all if it is empty.
func openSource(ns *netns.Namespace, id, iface string) (source *capture.Source, err error) {
	err = ns.Do(func() (err error) {
		index := 0
		if iface != "" {
			link, err := net.InterfaceByName(iface)
			if err != nil {
				return cli.Usage(fmt.Errorf("allocation %s has no interface %q: want %s", id, iface, strings.Join(interfaceNames(), ", ")))
			}
			index = link.Index
		}
		source, err = capture.Open(index)
		return err
	})
	return source, err
}

func interfaceNames() (names []string) {
	links, _ := net.Interfaces() // the error is about another name
	for _, link := range links {
		names = append(names, link.Name)
	}
	return names
}

// copy writes packets until the context ends, or there are as many as are wanted.
func (c *capturing) copy(ctx context.Context, cmd *cobra.Command, s *cli.Settings, ns *netns.Namespace, source *capture.Source) error {
	w, err := capture.NewWriter(cmd.OutOrStdout())
	if err != nil {
		return err
	}
	name := func(index int) string { return nameOf(ns, index) }
	packets := 0
	for c.count == 0 || packets < c.count {
		frame, err := source.Next(ctx)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		if err := w.Write(frame, name); err != nil {
			return err
		}
		packets++
	}
	lost, err := source.Lost()
	if err == nil && !s.JSON {
		cli.PrintError(cmd.ErrOrStderr(), fmt.Sprintf("%d packets, %d lost", packets, lost))
	}
	return err
}

// nameOf is the name of an interface; its number if it is gone.
func nameOf(ns *netns.Namespace, index int) string {
	name := fmt.Sprintf("interface %d", index)
	_ = ns.Do(func() error { // the number says enough
		link, err := net.InterfaceByIndex(index)
		if err == nil {
			name = link.Name
		}
		return err
	})
	return name
}
