// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/ui"
)

const uiLong = `Serve a status page of this host on 127.0.0.1, and print its URL: networks with the use
of their pools, allocations with search, their attachments and events, leaks, and with
networks that span hosts the routes and whether the other hosts reply. The page is read only.

The page shows what the agent answers on its socket. The command needs no other rights than
access to it. The URL opens the page in one browser, once. On a terminal, Enter prints
another one. A session ends after 30 minutes without a request, and all of them when the
command ends.

To see the page of another host, forward a port to it:
  ssh -L 8321:127.0.0.1:8321 HOST allocnet ui --port 8321`

// agentPatience is how long the command waits for an answer before it serves.
const agentPatience = 3 * time.Second

type uiFlags struct {
	cli.AgentSocket
	port int
}

func newUI(s *cli.Settings) *cobra.Command {
	var f uiFlags
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Serve a read-only status page of this host on 127.0.0.1",
		Long:  uiLong,
		Example: `  allocnet ui
  allocnet ui --port 8321`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, s) },
	}
	f.Register(cmd)
	cmd.Flags().IntVar(&f.port, "port", 0, "port on 127.0.0.1 (default: a free one)")
	return cmd
}

type pageJSON struct {
	URL string `json:"url"`
}

func (f *uiFlags) run(cmd *cobra.Command, s *cli.Settings) error {
	if f.port < 0 || f.port > math.MaxUint16 {
		return cli.Usage(fmt.Errorf("--port %d: want 1 to %d, or 0 for a free one", f.port, math.MaxUint16))
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	agent := f.Client()
	patient, done := context.WithTimeout(ctx, agentPatience)
	defer done()
	if err := agent.Healthy(patient); err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", f.port))
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("--port %d: another program has it: want a free one, or no --port: %w", f.port, err)
	}
	if err != nil {
		return err
	}
	page := ui.New(ui.Config{Agent: agent, Host: host, Listener: listener})
	if err := f.offer(cmd.OutOrStdout(), page, s.JSON); err != nil {
		return err
	}
	return page.Serve(ctx)
}

// offer prints a URL, and on a terminal another one for each line.
func (f *uiFlags) offer(out io.Writer, page *ui.Server, asJSON bool) error {
	switch {
	case asJSON:
		return cli.PrintJSON(out, pageJSON{page.URL()})
	case cli.TerminalOf(out).Columns == 0 || !cli.IsTerminal(os.Stdin):
		_, err := fmt.Fprintln(out, page.URL())
		return err
	}
	_, err := fmt.Fprintf(out, "The status page opens once with\n\n  %s\n\nEnter prints another URL. Ctrl-C ends the page.\n", page.URL())
	go func() { // it ends with the process
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			_, _ = fmt.Fprintf(out, "  %s\n", page.URL())
		}
	}()
	return err
}
