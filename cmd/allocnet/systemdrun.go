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

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/unit"
)

const systemdRunLong = `Create a network namespace, attach it to networks, and run a command in it as a
transient service of systemd, with systemd-run. When the service ends for any reason,
systemd detaches the networks.

The service is not restarted, because its namespace is gone by then. Use
allocnet@.service for services that restart.

With --wait, the exit code is the command's, or 128+N if signal N killed it. It is 125
if allocnet failed, systemd did not accept the unit, or systemd-run lost its connection
while the command runs, and 2 if the request was refused.`

func newSystemdRun(s *cli.Settings) *cobra.Command {
	var flags requestFlags
	var u transientUnit
	cmd := &cobra.Command{
		Use:   "systemd-run [flags] -- CMD [ARG...]",
		Short: "Run a command as a transient unit of systemd, in a namespace with networks",
		Long:  systemdRunLong,
		Example: `  allocnet systemd-run --primary web --networks storage,mgmt@net5 --publish 8080:80/tcp -- python3 -m http.server 80
  allocnet systemd-run --unit web-1 --primary web --property User=www-data --wait -- ip addr`,
		Args: wantCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			request, err := flags.request(u.name)
			if err != nil {
				return err
			}
			shown := waiting(cmd.ErrOrStderr(), request)
			engine, err := s.Engine(shown, shown)
			if err != nil {
				return runFailure(err)
			}
			return u.run(cmd, s, engine, shown, request, args)
		},
	}
	flags.register(cmd.Flags())
	cmd.Flags().StringVar(&u.name, "unit", "run-"+strings.ToLower(rand.Text()[:8]), "name of the unit and ID of the allocation")
	cmd.Flags().Lookup("unit").DefValue = "run-<random>"
	cmd.Flags().StringArrayVar(&u.properties, "property", nil, "a property of the unit, as NAME=VALUE; may be repeated")
	cmd.Flags().BoolVar(&u.wait, "wait", false, "wait for the command, and pass its input and output")
	return cmd
}

type transientUnit struct {
	name       string
	properties []string
	wait       bool
}

// run attaches, then starts the unit. If systemd does not accept the unit, run detaches
// the networks.
func (u transientUnit) run(cmd *cobra.Command, s *cli.Settings, engine *hook.Engine, shown *cli.Progress, r hook.Request, args []string) error {
	r.Fresh = true // a unit of this name has them otherwise
	var err error
	if r.Owner, err = unit.Owner(u.name); err != nil {
		return runFailure(err)
	}
	allocation, err := s.Reported(shown, func() (*hook.Allocation, error) { return engine.Setup(cmd.Context(), r) })
	if err != nil {
		return runFailure(err)
	}
	retryLater(s, engine, cmd.ErrOrStderr())
	err = u.start(cmd, s, allocation, args)
	var exit *cli.ExitError
	if err == nil || errors.As(err, &exit) {
		return err
	}
	undo := engine.Teardown(context.WithoutCancel(cmd.Context()), r.ID)
	return &cli.ExitError{Code: exitRunFailed, Err: errors.Join(err, undo)}
}

// start has systemd run the command. It returns nil when the unit was started, or
// with --wait when it has run to its end well, and an *exitError when it has ended
// otherwise or may go on: its ExecStopPost takes the networks down. Any other error
// is that there is no such unit.
func (u transientUnit) start(cmd *cobra.Command, s *cli.Settings, a *hook.Allocation, args []string) error {
	outcome, err := unit.NewOutcome(unit.OutcomeDir)
	if err != nil {
		return err
	}
	defer outcome.Remove()
	words, err := u.words(s, a, outcome)
	if err != nil {
		return err
	}
	err = u.systemdRun(cmd, append(words, args...))
	if err == nil && !u.wait {
		return nil
	}
	if code, ended := outcome.ExitCode(); ended {
		if code == cli.ExitDone {
			return nil
		}
		return &cli.ExitError{Code: code}
	}
	return u.withoutOutcome(cmd.Context(), a.Netns, err)
}

// withoutOutcome sorts what systemd-run returned while the command has not ended:
// the unit was never made, or goes on while systemd-run lost its connection to
// systemd. The exit code of systemd-run does not tell.
func (u transientUnit) withoutOutcome(ctx context.Context, netns string, err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		err = errors.New("systemd-run ended without an outcome of the command")
	case !errors.As(err, &exit): // it was not executed
		return err
	}
	runs, unknown := unit.RunsIn(context.WithoutCancel(ctx), u.name, netns)
	switch {
	case unknown != nil:
		return &cli.ExitError{Code: exitRunFailed, Err: fmt.Errorf("%w; it is unknown whether unit %s runs, its networks are kept until allocnet detach: %w", err, u.name, unknown)}
	case runs:
		return &cli.ExitError{Code: exitRunFailed, Err: fmt.Errorf("%w: unit %s goes on, its networks are kept", err, u.name)}
	}
	return err
}

func (u transientUnit) systemdRun(cmd *cobra.Command, words []string) error {
	run := exec.CommandContext(cmd.Context(), "systemd-run", words...)
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, cmd.OutOrStdout(), cmd.ErrOrStderr()
	if err := run.Run(); err != nil {
		return fmt.Errorf("systemd-run: %w", err)
	}
	return nil
}

// words are the arguments of systemd-run before the command.
func (u transientUnit) words(s *cli.Settings, a *hook.Allocation, outcome unit.Outcome) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	state, err := filepath.Abs(s.StateDir)
	if err != nil {
		return nil, err
	}
	// All processes of a unit are in its network and mount namespace. The teardown has to
	// be in the host's, and privileged, regardless of User=. A state directory that is lost must not
	// keep it from removing what is left, as one that is named by --state-dir would.
	var down []string
	for _, word := range []string{"nsenter", "--mount=/proc/1/ns/mnt", "--net=/proc/1/ns/net", "env", "ALLOCNET_STATE_DIR=" + state, self, "detach", a.ID} {
		down = append(down, strconv.Quote(word))
	}
	words := []string{
		"--unit=" + u.name, "--collect", "--quiet",
		"--property=NetworkNamespacePath=" + a.Netns,
		"--property=BindReadOnlyPaths=" + a.ResolvConf + ":/etc/resolv.conf",
		"--property=ExecStopPost=" + outcome.StopPost(),
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
