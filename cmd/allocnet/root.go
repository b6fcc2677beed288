// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

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

	"github.com/allocnet/allocnet/cluster/connect"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/plugin"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/event"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/unit"
	"github.com/allocnet/allocnet/internal/version"
	"github.com/allocnet/allocnet/state"
)

// settings are the flags that every command has.
type settings struct {
	confDir     string
	nomadDir    string
	pluginDir   string
	executor    string
	stateDir    string
	logLevel    string
	callTimeout time.Duration
	json        bool

	// command is the command that runs, as its caller named it.
	command string
	// running is set once the arguments and flags of a command are parsed.
	running bool
}

const rootLong = `allocnet attaches a network namespace to several CNI networks, maps its ports,
and removes all of it again.

A network is a .conflist, .conf or .json file in a CNI configuration directory, and
has the name in the file. Every flag has an environment variable: ALLOCNET_CONF_DIR for
--conf-dir, and so on.

Exit codes:
  0  done
  1  failed; partial work is undone, or stays recorded for the next attempt
  2  refused: wrong usage, or a request that cannot be met; nothing was done
  3  the allocation is not set up here
run and systemd-run --wait return the exit code of their command.`

// execute runs the program and returns its exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s := &settings{}
	root := newRoot(s)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if !s.running && err != nil { // before any command the error is one of usage
		err = usage(err)
	}
	return report(stderr, err, s.json || !s.running && asksForJSON(args))
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
func (s *settings) noteRunning(cmd *cobra.Command) {
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

func newRoot(s *settings) *cobra.Command {
	root := &cobra.Command{
		Use:           "allocnet",
		Short:         "Attach network namespaces to several CNI networks",
		Long:          rootLong,
		Version:       version.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return errors.Join(requireOne(cmd), s.requireStateDir(cmd), fromEnvironment(cmd.Flags()))
		},
	}
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate(ownVersion().String())
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if t := terminalOf(cmd.OutOrStdout()); t.columns > 0 {
			fitHelp(cmd, t.columns)
		}
		help(cmd, args)
	})
	s.register(root.PersistentFlags())
	s.addCommands(root)
	s.noteRunning(root)
	s.completeFlags(root)
	return root
}

// addCommands adds the commands, in the groups of the help text.
func (s *settings) addCommands(root *cobra.Command) {
	withCommands(root, newRetry(s))
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"allocations", "Allocations:", []*cobra.Command{newRun(s), newAttach(s), newDetach(s), newStatus(s), newMap(s), newCheck(s), newRepair(s), newEvents(s)}},
		{"networks", "Networks:", []*cobra.Command{newNetworks(s), newConf(s), newIPAM(s), newCluster(s)}},
		{"host", "The host:", []*cobra.Command{newDoctor(s), newUI(s), newGC(s), newCleanup(s)}},
		{"integrations", "Daemon and integrations:", []*cobra.Command{newAgent(s), newPlugin(s), newSystemdRun(s)}},
		{"program", "The program:", []*cobra.Command{newVersion(s), newMan()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, command := range group.commands {
			command.GroupID = group.id
			root.AddCommand(command)
		}
	}
	root.SetCompletionCommandGroupID("program")
	root.SetHelpCommandGroupID("program")
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, command := range root.Commands() {
		switch command.Name() { // cobra's own do not say what they do not know
		case "help":
			command.Args = knownTopic
		case "completion":
			withCommands(command)
		}
	}
}

// wantArguments is the argument check of a command that wants so many, which are described.
func wantArguments(least, most int, want string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usage(fmt.Errorf("got %d arguments: want %s", len(args), want))
		}
		return nil
	}
}

// withCommands makes a command of those below it: without one it prints its help.
func withCommands(cmd *cobra.Command, below ...*cobra.Command) *cobra.Command {
	cmd.Args, cmd.RunE = knownCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(below...)
	return cmd
}

// knownTopic is the argument check of help, whose arguments are the names of a command.
func knownTopic(cmd *cobra.Command, args []string) error {
	at := cmd.Root()
	for i := range args {
		below, rest, err := at.Find(args[i : i+1])
		if err != nil || len(rest) > 0 || below == at {
			return knownCommand(at, args[i:])
		}
		at = below
	}
	return nil
}

// knownCommand is the argument check of a command that only has commands below it: an
// argument is a mistyped one.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = min(2, len(args[0])/2) // mistyped letters
	suggested := cmd.SuggestionsFor(args[0])
	text := fmt.Sprintf("unknown command %q", args[0])
	if len(suggested) > 0 {
		text += fmt.Sprintf("; did you mean %s?", strings.Join(suggested, " or "))
	}
	return usage(fmt.Errorf("%s (see: %s --help)", text, cmd.CommandPath()))
}

func (s *settings) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.confDir, "conf-dir", cniconf.DefaultDir, "CNI configuration directories, separated by ':'; the first file with a network's name is used")
	flags.StringVar(&s.nomadDir, "nomad-conf-dir", "", "CNI configuration directory of the Nomad client (default the last of --conf-dir)")
	flags.StringVar(&s.executor, "executor", hook.ExecutorAuto, "what executes networks: auto (allocnet itself, where it understands all of the configuration), or plugins")
	flags.StringVar(&s.pluginDir, "plugin-dir", "", "directories of the CNI plugins, separated by ':' (default $CNI_PATH, else "+cniconf.DefaultPluginDirs+")")
	flags.StringVar(&s.stateDir, "state-dir", state.DefaultDir, "directory of the records")
	flags.StringVar(&s.logLevel, "log-level", "warn", "trace, debug, info, warn, error or off; debug and info are log lines with times, and debug has every call of a plugin")
	flags.DurationVar(&s.callTimeout, "call-timeout", time.Minute, "deadline of one plugin call, after which the plugin is killed")
	flags.BoolVar(&s.json, "json", false, "print JSON, errors too")
}

// makers are the commands to which a new state directory can be named.
var makers = []string{"agent", "attach", "generate", "plugin", "run", "systemd-run"}

// requireStateDir refuses --state-dir with a missing directory: mistyped, it would look like a host without
// allocations. The default one, and that of the environment, are of the host and may be missing on a new one.
func (s *settings) requireStateDir(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("state-dir") || slices.Contains(makers, cmd.Name()) {
		return nil
	}
	info, err := os.Stat(s.stateDir)
	if err == nil && info.IsDir() || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // what uses it says what is wrong
	}
	return usage(fmt.Errorf("--state-dir %q: no such directory: want the one that the agent and attach use; the default is %s", s.stateDir, state.DefaultDir))
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
			failed = usage(fmt.Errorf("%s: %w", given, err))
			if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
				failed = usage(valueError(given, invalid))
			}
		}
	})
	return failed
}

func (s *settings) confDirs() []string { return filepath.SplitList(s.confDir) }

// nomadConfDir is the directory that Nomad's client reads.
func (s *settings) nomadConfDir() string { return cmp.Or(s.nomadDir, cniconf.NomadDir(s.confDirs())) }

func (s *settings) pluginDirs() []string { return filepath.SplitList(s.pluginDir) }

// logger returns the logger that the flags describe.
func (s *settings) logger(stderr io.Writer) (hclog.Logger, error) {
	level := hclog.LevelFromString(s.logLevel)
	if level == hclog.NoLevel {
		return nil, usage(fmt.Errorf("--log-level %q: want trace, debug, info, warn, error or off", s.logLevel))
	}
	if level >= hclog.Warn && !s.json {
		return plainLogger(stderr, level), nil
	}
	return hclog.New(&hclog.LoggerOptions{
		Name: "allocnet", Level: level, Output: stderr, JSONFormat: s.json,
	}), nil
}

// engine returns the engine that the flags describe, for commands that change the host. The
// observers are told of its operations.
func (s *settings) engine(stderr io.Writer, observers ...hook.Observer) (*hook.Engine, error) {
	if err := requireRoot(); err != nil {
		return nil, err
	}
	return s.newEngine(stderr, hook.NewEngine, observers...)
}

// reader returns an engine for commands that only read.
func (s *settings) reader(stderr io.Writer) (*hook.Engine, error) {
	return s.newEngine(stderr, hook.NewReader)
}

func (s *settings) newEngine(stderr io.Writer, open func(hook.Config) (*hook.Engine, error), observers ...hook.Observer) (*hook.Engine, error) {
	c, err := s.loggedConfig(stderr)
	if err != nil {
		return nil, err
	}
	c.Observers = append(observers, event.NewRecorder(s.stateDir, s.command, c.Logger))
	return open(c)
}

// loggedConfig is config with the logger that the flags describe.
func (s *settings) loggedConfig(stderr io.Writer) (hook.Config, error) {
	log, err := s.logger(stderr)
	if err != nil {
		return hook.Config{}, err
	}
	return s.config(log)
}

// config returns the configuration of the engine that the flags describe.
func (s *settings) config(log hclog.Logger) (hook.Config, error) {
	if s.callTimeout <= 0 {
		return hook.Config{}, usage(fmt.Errorf("--call-timeout %s: want more than 0", s.callTimeout))
	}
	return hook.Config{
		ConfDirs:    s.confDirs(),
		PluginDirs:  s.pluginDirs(),
		Executor:    s.executor,
		StateDir:    s.stateDir,
		CallTimeout: s.callTimeout,
		OwnerGone:   unit.Gone,
		Connect:     func(c *ipam.Config) plugin.Connection { return connect.New(c.ConfigDir, c.StateDir) },
		Logger:      log,
	}, nil
}
