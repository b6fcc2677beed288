// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package cli is what the commands of allocnet share: their settings, arguments and completion, the
// engine that they call, what they print for people and as JSON, and their errors and exit codes.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/connect"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/plugin"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/event"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/unit"
	"github.com/allocnet/allocnet/state"
)

// Settings are the flags that every command has.
type Settings struct {
	ConfDir     string
	NomadDir    string
	PluginDir   string
	Executor    string
	StateDir    string
	logLevel    string
	CallTimeout time.Duration
	JSON        bool

	// command is the command that runs, as its caller named it.
	command string
	// running is set once the arguments and flags of a command are parsed.
	running bool
}

// Execute runs a command line and returns its exit code.
func Execute(ctx context.Context, newRoot func(*Settings) *cobra.Command, args []string, stdout, stderr io.Writer) int {
	s := &Settings{}
	root := newRoot(s)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if !s.running && err != nil { // before any command the error is one of usage
		err = Usage(err)
	}
	return report(stderr, err, s.JSON || !s.running && asksForJSON(args))
}

// Prepare gives the commands below root what they share: flags, also from the environment, and errors.
func (s *Settings) Prepare(root *cobra.Command) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		return errors.Join(requireOne(cmd), s.requireStateDir(cmd), fromEnvironment(cmd.Flags()))
	}
	root.SetFlagErrorFunc(flagError)
	s.register(root.PersistentFlags())
	s.noteRunning(root)
}

// asksForJSON tells whether a command line has --json, or the environment has it, if it could not be parsed.
func asksForJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	asked, _ := strconv.ParseBool(os.Getenv("ALLOCNET_JSON")) // false with an error
	for _, arg := range args {
		if flag, value, given := strings.Cut(arg, "="); flag == "--json" {
			on, _ := strconv.ParseBool(value)
			asked = !given || on
		}
	}
	return asked
}

// noteRunning sets running in each command: cobra's own errors about arguments and
// flags have no type.
func (s *Settings) noteRunning(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		s.noteRunning(child)
	}
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			s.running, s.command = true, cmd.CommandPath()
			return run(cmd, args)
		}
	}
}

func (s *Settings) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.ConfDir, "conf-dir", "", "CNI configuration directories, separated by ':'; the first file with a network's name is used (default "+strings.Join(cniconf.DefaultDirs(), ":")+")")
	flags.StringVar(&s.NomadDir, "nomad-conf-dir", "", "CNI configuration directory of the Nomad client (default the last of --conf-dir)")
	flags.StringVar(&s.Executor, "executor", hook.ExecutorAuto, "what executes networks: auto (allocnet itself, where it understands all of the configuration), or plugins")
	flags.StringVar(&s.PluginDir, "plugin-dir", "", "directories of the CNI plugins, separated by ':' (default $CNI_PATH, else "+cniconf.DefaultPluginDirs+")")
	flags.StringVar(&s.StateDir, "state-dir", state.DefaultDir, "directory of the records")
	flags.StringVar(&s.logLevel, "log-level", "warn", "trace, debug, info, warn, error or off; debug and info are log lines with times, and debug has every call of a plugin")
	flags.DurationVar(&s.CallTimeout, "call-timeout", time.Minute, "deadline of one plugin call, after which the plugin is killed")
	flags.BoolVar(&s.JSON, "json", false, "print JSON, errors too")
}

// makers are the commands to which a new state directory can be named.
var makers = []string{"agent", "attach", "generate", "plugin", "run", "systemd-run"}

// requireStateDir refuses --state-dir with a missing directory: mistyped, it would look like a host without
// allocations. The default one, and that of the environment, are of the host and may be missing on a new one.
func (s *Settings) requireStateDir(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("state-dir") || slices.Contains(makers, cmd.Name()) {
		return nil
	}
	info, err := os.Stat(s.StateDir)
	if err == nil && info.IsDir() || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // what uses it says what is wrong
	}
	return Usage(fmt.Errorf("--state-dir %q: no such directory: want the one that the agent and attach use; the default is %s", s.StateDir, state.DefaultDir))
}

// fromEnvironment sets the flags that were not given from ALLOCNET_<FLAG>.
func fromEnvironment(flags *pflag.FlagSet) error {
	var failed error
	flags.VisitAll(func(flag *pflag.Flag) {
		name := "ALLOCNET_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		value, ok := os.LookupEnv(name)
		if !ok || flag.Changed || flag.Name == "help" || flag.Name == "version" {
			return
		}
		if err := flags.Set(flag.Name, value); err != nil && failed == nil {
			given := fmt.Sprintf("%s=%q", name, value)
			failed = Usage(fmt.Errorf("%s: %w", given, err))
			if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
				failed = Usage(valueError(given, invalid))
			}
		}
	})
	return failed
}

// ConfDirs are the CNI configuration directories, at least one.
func (s *Settings) ConfDirs() []string { return cniconf.Dirs(filepath.SplitList(s.ConfDir)) }

// NomadConfDir is the directory that Nomad's client reads.
func (s *Settings) NomadConfDir() string { return cmp.Or(s.NomadDir, cniconf.NomadDir(s.ConfDirs())) }

// PluginDirs are the directories of the plugins.
func (s *Settings) PluginDirs() []string { return filepath.SplitList(s.PluginDir) }

// Logger returns the logger that the flags describe.
func (s *Settings) Logger(stderr io.Writer) (hclog.Logger, error) {
	level := hclog.LevelFromString(s.logLevel)
	if level == hclog.NoLevel {
		return nil, Usage(fmt.Errorf("--log-level %q: want trace, debug, info, warn, error or off", s.logLevel))
	}
	if level >= hclog.Warn && !s.JSON {
		return plainLogger(stderr, level), nil
	}
	return hclog.New(&hclog.LoggerOptions{
		Name: "allocnet", Level: level, Output: stderr, JSONFormat: s.JSON,
	}), nil
}

// Engine returns the engine that the flags describe, for commands that change the host. The
// observers are told of its operations.
func (s *Settings) Engine(stderr io.Writer, observers ...hook.Observer) (*hook.Engine, error) {
	if err := RequireRoot(); err != nil {
		return nil, err
	}
	return s.newEngine(stderr, hook.NewEngine, observers...)
}

// Reader returns an engine for commands that only read.
func (s *Settings) Reader(stderr io.Writer) (*hook.Engine, error) {
	return s.newEngine(stderr, hook.NewReader)
}

func (s *Settings) newEngine(stderr io.Writer, open func(hook.Config) (*hook.Engine, error), observers ...hook.Observer) (*hook.Engine, error) {
	c, err := s.LoggedConfig(stderr)
	if err != nil {
		return nil, err
	}
	c.Observers = append(observers, event.NewRecorder(s.StateDir, s.command, c.Logger))
	return open(c)
}

// LoggedConfig is Config with the logger that the flags describe.
func (s *Settings) LoggedConfig(stderr io.Writer) (hook.Config, error) {
	log, err := s.Logger(stderr)
	if err != nil {
		return hook.Config{}, err
	}
	return s.Config(log)
}

// Config returns the configuration of the engine that the flags describe.
func (s *Settings) Config(log hclog.Logger) (hook.Config, error) {
	if s.CallTimeout <= 0 {
		return hook.Config{}, Usage(fmt.Errorf("--call-timeout %s: want more than 0", s.CallTimeout))
	}
	return hook.Config{
		ConfDirs:      s.ConfDirs(),
		PluginDirs:    s.PluginDirs(),
		Executor:      s.Executor,
		StateDir:      s.StateDir,
		CallTimeout:   s.CallTimeout,
		OwnerGone:     unit.Gone,
		Connect:       func(c *ipam.Config) plugin.Connection { return connect.New(c.ConfigDir, c.StateDir) },
		Logger:        log,
		AnnounceAgain: announceAgain(log),
	}, nil
}

// RequireRoot is an error for a user who cannot change networks: a plugin's own error
// would come late, and not name the cause.
func RequireRoot() error {
	if os.Geteuid() == 0 {
		return nil
	}
	const needed = 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_SYS_ADMIN
	var held [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &held[0]); err == nil && held[0].Effective&needed == needed {
		return nil
	}
	return Usage(errors.New("this command changes the networks of the host: run as root"))
}
