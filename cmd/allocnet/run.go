// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/resolvconf"
)

// Exit codes of run, as env(1), nice(1) and container engines have them.
const (
	exitRunFailed      = 125
	exitNotExecutable  = 126
	exitCommandMissing = 127
	exitSignalled      = 128 // plus the number of the signal
)

// runFailure is the error of a command that executes another, before it has started:
// a refused request keeps its exit code, other errors have one that commands seldom
// have.
func runFailure(err error) error {
	if cli.ExitCode(err) == cli.ExitRefused {
		return err
	}
	return &cli.ExitError{Code: exitRunFailed, Err: err}
}

func newRun(s *cli.Settings) *cobra.Command {
	var flags requestFlags
	var id string
	cmd := &cobra.Command{
		Use:   "run [flags] -- CMD [ARG...]",
		Short: "Run a command in a namespace with networks",
		Long: `Create a network namespace, attach it to networks, run a command in it, and remove all
of it when the command ends. Signals are forwarded to the command. An ID that is set up
already is refused; after a run that was killed, detach it first.

The command has a mount namespace of its own, in which /etc/resolv.conf has the name
servers of its networks; --dns selects them.

The exit code is the command's, 128+N if signal N killed it, 127 if it is not found,
126 if it cannot be executed, and 125 if allocnet itself failed.`,
		Example: `  allocnet run --primary web --networks storage,mgmt@net5 --publish 8080:80/tcp -- python3 -m http.server 80
  allocnet run --primary web -- ip addr`,
		Args: wantCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			request, err := flags.request(id)
			if err != nil {
				return err
			}
			shown := waiting(cmd.ErrOrStderr(), request)
			engine, err := s.Engine(shown, shown)
			if err != nil {
				return runFailure(err)
			}
			defer retryLater(s, engine, cmd.ErrOrStderr())
			return runIn(s, cmd, engine, shown, request, args)
		},
	}
	flags.register(cmd.Flags())
	cmd.Flags().StringVar(&id, "id", "run-"+strings.ToLower(rand.Text()[:8]), "ID of the allocation")
	cmd.Flags().Lookup("id").DefValue = "run-<random>"
	return cmd
}

// wantCommand is the argument check of the commands that execute another.
func wantCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cli.Usage(fmt.Errorf("no command: want one after --, as in: allocnet %s --primary web -- ip addr", cmd.Name()))
	}
	return nil
}

// forwarded are the signals that the command gets instead of allocnet: one that ended allocnet would leave the allocation.
var forwarded = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2}

// runIn sets an allocation up, runs the command in it, and tears it down,
// whatever the command did.
func runIn(s *cli.Settings, cmd *cobra.Command, engine *hook.Engine, shown *cli.Progress, r hook.Request, args []string) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)

	r.Fresh = true // the allocation of another command is not removed at the end of this one
	allocation, err := s.Reported(shown, func() (*hook.Allocation, error) {
		return setupUnlessSignalled(cmd.Context(), engine, r, signals)
	})
	if err != nil {
		return runFailure(err)
	}
	outcome := runCommand(allocation, args, cmd.OutOrStdout(), cmd.ErrOrStderr(), signals)
	if err := engine.Teardown(context.WithoutCancel(cmd.Context()), r.ID); err != nil {
		err = fmt.Errorf("the command has ended, but: %w", err)
		if exit, ok := errors.AsType[*cli.ExitError](outcome); ok {
			return &cli.ExitError{Code: exit.Code, Err: err}
		}
		return &cli.ExitError{Code: exitRunFailed, Err: err}
	}
	return outcome
}

// setupUnlessSignalled cancels and undoes the set-up at the first signal.
func setupUnlessSignalled(ctx context.Context, engine *hook.Engine, r hook.Request, signals chan os.Signal) (*hook.Allocation, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case s := <-signals:
			cancel(fmt.Errorf("interrupted by signal %q", s))
		case <-done:
		}
	}()
	allocation, err := engine.Setup(ctx, r)
	close(done)
	<-watching
	if err == nil && ctx.Err() != nil { // the signal arrived after the set-up
		err = errors.Join(context.Cause(ctx), engine.Teardown(context.WithoutCancel(ctx), r.ID))
	}
	return allocation, err
}

func runCommand(a *hook.Allocation, args []string, stdout, stderr io.Writer, signals <-chan os.Signal) error {
	command := exec.Command(args[0], args[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, stdout, stderr
	if err := start(command, a, stderr); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for {
		select {
		case s := <-signals:
			// A terminal sends SIGINT to the command as well.
			if s != unix.SIGINT || !cli.IsTerminal(os.Stdin) {
				_ = command.Process.Signal(s) // it may have ended already
			}
		case err := <-ended:
			return commandOutcome(err)
		}
	}
}

func start(command *exec.Cmd, a *hook.Allocation, stderr io.Writer) error {
	ns, err := netns.Open(a.Netns)
	if err != nil {
		return &cli.ExitError{Code: exitRunFailed, Err: err}
	}
	defer ns.Close()           //nolint:errcheck // only entered
	err = ns.Do(func() error { // a child is in the namespaces of the thread that makes it
		if a.ResolvConf == "" { // another program made the namespace
			return command.Start()
		}
		if err := resolvconf.MountOver(a.ResolvConf); err != nil {
			cli.PrintError(stderr, fmt.Sprintf("the command has the resolv.conf of the host: %v", err)) // as ip netns exec does
		}
		return command.Start()
	})
	if err != nil {
		return startFailure(command.Args[0], err)
	}
	return nil
}

func startFailure(name string, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return &cli.ExitError{Code: exitCommandMissing, Err: fmt.Errorf("command %q is not found", name)}
	}
	return &cli.ExitError{Code: exitNotExecutable, Err: fmt.Errorf("command %q cannot be executed: %w", name, err)}
}

func commandOutcome(err error) error {
	if err == nil {
		return nil
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return &cli.ExitError{Code: exitRunFailed, Err: err}
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return &cli.ExitError{Code: exitSignalled + int(status.Signal())}
	}
	return &cli.ExitError{Code: exit.ExitCode()}
}
