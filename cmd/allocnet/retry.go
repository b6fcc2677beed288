// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"io"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/detached"
)

const retryCommand = "retry-pending"

func newRetry(s *cli.Settings) *cobra.Command {
	return &cobra.Command{
		Use:    retryCommand,
		Short:  "Retry the failed teardowns that are due",
		Hidden: true,
		Args:   cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			engine, err := s.Engine(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGTERM)
			defer stop()
			return engine.RetryPending(ctx)
		},
	}
}

// retryLater starts a process that retries failed teardowns, so that the caller does
// not wait for them.
func retryLater(s *cli.Settings, engine *hook.Engine, stderr io.Writer) {
	if !engine.RetryDue() {
		return
	}
	err := detached.Start(nil, retryCommand, "--state-dir", s.StateDir, "--conf-dir", s.ConfDir, "--plugin-dir", s.PluginDir, "--executor", s.Executor, "--call-timeout", s.CallTimeout.String())
	if err != nil {
		cli.PrintError(stderr, fmt.Sprintf("pending teardowns are not retried now: %v", err))
	}
}
