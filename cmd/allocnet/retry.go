// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"io"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/detached"
)

const retryCommand = "retry-pending"

// newRetry is the command that retryLater starts.
func newRetry(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:    retryCommand,
		Short:  "Retry the failed teardowns that are due",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			engine, err := s.engine(cmd.ErrOrStderr())
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
func (s *settings) retryLater(engine *hook.Engine, stderr io.Writer) {
	if !engine.RetryDue() {
		return
	}
	err := detached.Start(nil, retryCommand, "--state-dir", s.stateDir, "--conf-dir", s.confDir, "--plugin-dir", s.pluginDir, "--executor", s.executor, "--call-timeout", s.callTimeout.String())
	if err != nil {
		printError(stderr, fmt.Sprintf("pending teardowns are not retried now: %v", err))
	}
}
