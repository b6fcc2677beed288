// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/ipam/linked"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/cniexec"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/inprocess"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// Values of Config.Executor.
const (
	// ExecutorAuto executes a network in this process if all of its configuration is
	// understood, else its plugins.
	ExecutorAuto = "auto"
	// ExecutorPlugins executes the plugins of all networks.
	ExecutorPlugins = "plugins"
)

// InProcess executes networks in this process.
type InProcess interface {
	// Supports returns why a network cannot be executed; nil if it can.
	Supports(list *libcni.NetworkConfigList, pluginDirs []string) error
	// Chain returns what executes the plugins of an attachment for one verb; the zero value stands for its network as a whole.
	// CHECK is a repair, which r is for; it is nil for other verbs. The seams are those of ADD.
	Chain(a state.Attachment, r *remedy.Repair, seams plugin.Seams) Chain
	// Commit makes the changes of chains of one allocation. The result has an error for
	// each of them. Programs that it runs inherit hold, unless it is nil.
	Commit(ctx context.Context, hold *os.File, changes []*plugin.Changes) []error
	// CommitMissing adds what chains that repair have left and the host lacks. What was
	// missing is in the Repair of each. Programs that it runs inherit the holds.
	CommitMissing(ctx context.Context, holds []*os.File, changes []*plugin.Changes)
	// ListRules returns the rules that a chain which repairs has left.
	ListRules(ctx context.Context, changes *plugin.Changes) ([]rules.Listed, error)
}

// Chain executes the plugins of one network for one verb.
type Chain interface {
	invoke.Exec
	// Changes returns what is left to be committed when the chain has succeeded.
	Changes() *plugin.Changes
}

// executor is the InProcess of package inprocess.
type executor struct {
	connect  Connect
	stateDir string
}

// Connect returns the connection of this host to the store of a pool of allocnet-ipam.
type Connect = linked.Connect

// errNoKeeper is why no lease of DHCP is asked for.
var errNoKeeper = errors.New("plugin \"dhcp\": no agent of allocnet runs on this host, which would extend its leases")

func (x executor) Supports(list *libcni.NetworkConfigList, pluginDirs []string) error {
	err := inprocess.Supports(list, pluginDirs)
	if err == nil && inprocess.UsesDHCP(list) && !state.LeasesAreKept(x.stateDir) {
		return errNoKeeper
	}
	return err
}

func (x executor) Chain(a state.Attachment, r *remedy.Repair, seams plugin.Seams) Chain {
	if seams.Lease == nil {
		seams.Lease = &plugin.Lease{Recorded: a.Leased()}
	}
	return &inprocess.Chain{OwnIPAM: linked.Type(x.connect), Repair: r, IPTables: rules.Kind(a.IPTables), RuleHandles: a.RuleHandles, Fresh: isFresh(a), IPv6Off: a.IPv6Off, Seams: seams}
}

// isFresh tells whether ADD of an attachment has not begun before. What an earlier set-up of the allocation had made is torn down by
// then; what it left without a record, garbage collections find.
func isFresh(a state.Attachment) bool { return a.Planned && a.Attempts == 1 && a.FormerResult == nil }

func (executor) Commit(ctx context.Context, hold *os.File, changes []*plugin.Changes) []error {
	return plugin.Commit(ctx, hold, changes)
}

func (executor) CommitMissing(ctx context.Context, holds []*os.File, changes []*plugin.Changes) {
	plugin.CommitMissing(ctx, holds, changes)
}

func (executor) ListRules(ctx context.Context, changes *plugin.Changes) ([]rules.Listed, error) {
	return rules.List(ctx, &changes.Rules)
}

// ValidateExecutor checks Config.Executor.
func (c Config) ValidateExecutor() error {
	if c.Executor != ExecutorAuto && c.Executor != ExecutorPlugins {
		return errdefs.As(errdefs.Refused, fmt.Errorf("executor %q: want %q or %q", c.Executor, ExecutorAuto, ExecutorPlugins))
	}
	return nil
}

// ReasonForPlugins returns nil if a network is executed in this process, else why its plugins
// are; option is Rules.Executor of the network.
func (c Config) ReasonForPlugins(list *libcni.NetworkConfigList, option string) error {
	switch {
	case c.Executor == ExecutorPlugins:
		return fmt.Errorf("executor is %q", ExecutorPlugins)
	case option == policy.ExecutorPlugins:
		return fmt.Errorf("executor in \"allocnet\" of the network is %q", ExecutorPlugins)
	case c.InProcess == nil:
		return errors.New("plugins are executed by Config.Exec")
	}
	return c.InProcess.Supports(list, c.PluginDirs)
}

// WhyPlugins returns why the plugins of a network are executed; nil if the network is
// executed in process.
func (c Config) WhyPlugins(n *cniconf.Network) error {
	options, err := policy.Of(n)
	if err != nil {
		return err
	}
	return c.WithDefaults().ReasonForPlugins(n.List, options.Executor)
}

// Usable tells which networks of a catalog an engine of this configuration can attach.
func (c Config) Usable(catalog *cniconf.Catalog) cniconf.Usable {
	c = c.WithDefaults()
	return catalog.Usable(cniconf.Host{
		PluginDirs: c.PluginDirs,
		HasLink: func(name string) (bool, error) {
			_, found, err := c.Host.LinkMTU(name)
			return found, err
		},
		WhyPlugins: c.WhyPlugins,
		CheckKeys: func(n *cniconf.Network) error {
			if err := c.CheckKeys(n); err != nil {
				return err
			}
			return policy.CheckBridges(n, catalog.Networks)
		},
	})
}

// InProcessChain returns what executes a chain in this process; nil if its plugins are
// executed. It does what it was chosen for, and what lacks a plugin. What was chosen is not
// judged again: what is supported depends on what the host has, which may have changed.
func (c Config) InProcessChain(list *libcni.NetworkConfigList, dirs []string, a state.Attachment, seams plugin.Seams) Chain {
	x := c.InProcess
	if x == nil || a.Executor != state.InProcess && (IsInstalled(list, dirs) || x.Supports(list, nil) != nil) {
		return nil
	}
	return x.Chain(a, nil, seams)
}

// MadeByOtherIPTables tells whether plugins made the rules of an attachment with an iptables that the host's is not by now.
// They find none of them.
func (c Config) MadeByOtherIPTables(a state.Attachment) bool {
	return a.Executor != state.InProcess && a.IPTables != "" && a.IPTables != c.Host.IPTables()
}

// IsInstalled tells whether the directories have all plugins of a chain.
func IsInstalled(list *libcni.NetworkConfigList, dirs []string) bool {
	n := cniconf.Network{Name: list.Name, List: list}
	return n.CheckPlugins(dirs) == nil
}

// Processes returns what executes plugins outside of this process. They inherit hold,
// unless it is nil.
func (c Config) Processes(hold *os.File, log hclog.Logger) invoke.Exec {
	if c.Exec != nil {
		return c.Exec
	}
	return &cniexec.Process{Hold: hold, Log: log}
}

// DirsOf are searched for the plugins of an attachment.
func (c Config) DirsOf(a state.Attachment) []string {
	return slices.Concat(a.PluginDirs, c.PluginDirs)
}

// LacksPlugin returns why ADD could not run: a plugin is not installed any more.
func (c Config) LacksPlugin(a state.Attachment, list *libcni.NetworkConfigList) error {
	if a.Executor == state.InProcess && c.InProcess != nil {
		return nil
	}
	n := cniconf.Network{Name: list.Name, List: list}
	return n.CheckPlugins(c.DirsOf(a))
}

// IsKnown tells whether an attachment can be repaired in this process. What executed ADD does not
// matter: the objects are the same, but for leases that another daemon keeps.
func (c Config) IsKnown(a state.Attachment, list *libcni.NetworkConfigList) bool {
	x := c.InProcess
	return x != nil && (a.Executor == state.InProcess || !inprocess.UsesDHCP(list) && x.Supports(list, c.DirsOf(a)) == nil)
}
