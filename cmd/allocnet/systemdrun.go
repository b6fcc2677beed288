// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/unit"
)

func newSystemdRun(s *settings) *cobra.Command {
	var w wishes
	var u transientUnit
	cmd := &cobra.Command{
		Use:   "systemd-run [flags] -- CMD [ARG...]",
		Short: "Run a command as a transient unit of systemd, in a namespace with networks",
		Long: `Make a network namespace, attach it, and have systemd run a command in it as a
transient service, by systemd-run. When the service ends, however it ends,
systemd takes the networks down.

The service is not restarted, as its namespace is gone by then; allocnet@.service
is for services that are.

With --wait the exit code is the command's, or 128+N when signal N killed it. It
is 125 when allocnet failed or systemd did not take the unit, and 2 when the
request was refused.`,
		Example: `  allocnet systemd-run --primary web --networks storage,mgmt@net5 --publish 8080:80/tcp -- python3 -m http.server 80
  allocnet systemd-run --unit web-1 --primary web --property User=nobody --wait -- ip addr`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(errors.New("no command: want one after --, as in: allocnet systemd-run --primary web -- ip addr"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			request, err := w.request(u.name)
			if err != nil {
				return err
			}
			engine, err := s.engine(cmd.ErrOrStderr())
			if err != nil {
				return runFailure(err)
			}
			return u.run(cmd, s, engine, request, args)
		},
	}
	w.register(cmd.Flags())
	cmd.Flags().StringVar(&u.name, "unit", "run-"+strings.ToLower(rand.Text()[:8]), "name of the unit and ID of the allocation")
	cmd.Flags().Lookup("unit").DefValue = "run-<random>"
	cmd.Flags().StringArrayVar(&u.properties, "property", nil, "a property of the unit, as NAME=VALUE; may be repeated")
	cmd.Flags().BoolVar(&u.wait, "wait", false, "wait for the command, and pass its input and output")
	return cmd
}

// transientUnit is what systemd-run makes.
type transientUnit struct {
	name       string
	properties []string
	wait       bool
}

// run attaches, then leaves the rest to systemd. When systemd does not take
// the unit, the networks are taken down here.
func (u transientUnit) run(cmd *cobra.Command, s *settings, engine *hook.Engine, r hook.Request, args []string) error {
	r.Fresh = true // a unit of this name has them otherwise
	var err error
	if r.Owner, err = unit.Owner(u.name); err != nil {
		return runFailure(err)
	}
	allocation, err := engine.Setup(cmd.Context(), r)
	if err != nil {
		return runFailure(err)
	}
	s.retryLater(engine, cmd.ErrOrStderr())
	outcome, err := newUnitOutcome(outcomeDir)
	if err != nil {
		return errors.Join(runFailure(err), engine.Teardown(context.WithoutCancel(cmd.Context()), r.ID))
	}
	defer outcome.remove()
	words, err := u.words(s, allocation, outcome)
	if err == nil {
		err = u.systemdRun(cmd, append(words, args...), outcome)
	}
	if err == nil || errors.Is(err, errInterrupted) {
		return err
	}
	if undo := engine.Teardown(context.WithoutCancel(cmd.Context()), r.ID); undo != nil {
		return &exitError{exitRunFailed, errors.Join(err, undo)}
	}
	return err
}

// errInterrupted is a wait that was ended; the unit goes on.
var errInterrupted = errors.New("systemd-run was interrupted: the unit goes on")

// systemdRun returns nil when the unit runs, or has run to its end well. The exit
// code of systemd-run alone does not tell a command that failed from a unit that
// was never made.
func (u transientUnit) systemdRun(cmd *cobra.Command, words []string, outcome unitOutcome) error {
	run := exec.CommandContext(cmd.Context(), "systemd-run", words...)
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, cmd.OutOrStdout(), cmd.ErrOrStderr()
	err := run.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && !exit.Exited() {
		return &exitError{exitRunFailed, errInterrupted}
	}
	if err == nil {
		return nil
	}
	if code, ended := outcome.exitCode(); ended {
		return &exitError{code: code}
	}
	return &exitError{exitRunFailed, fmt.Errorf("systemd-run: %w", err)}
}

// words are the arguments of systemd-run before the command.
func (u transientUnit) words(s *settings, a *hook.Allocation, outcome unitOutcome) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	state, err := filepath.Abs(s.stateDir)
	if err != nil {
		return nil, err
	}
	// All processes of a unit are in its namespace. What takes the networks
	// down has to be in the host's, and have all rights, whoever User= is.
	var down []string
	for _, word := range []string{"nsenter", "--net=/proc/1/ns/net", self, "detach", "--state-dir", state, a.ID} {
		down = append(down, strconv.Quote(word))
	}
	words := []string{
		"--unit=" + u.name, "--collect", "--quiet",
		"--property=NetworkNamespacePath=" + a.Netns,
		"--property=ExecStopPost=" + outcome.stopPost(),
		"--property=ExecStopPost=+" + strings.Join(down, " "),
	}
	for _, property := range u.properties {
		words = append(words, "--property="+property)
	}
	if u.wait {
		words = append(words, "--wait", "--pipe")
	}
	return append(words, "--"), nil
}
