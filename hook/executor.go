// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/ipam/linked"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
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
	// Unless r is nil it repairs the attachment when it executes CHECK.
	Chain(a state.Attachment, r *remedy.Repair) Chain
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
type executor struct{ connect Connect }

// Connect returns the connection of this host to the store of a pool of allocnet-ipam.
type Connect = linked.Connect

func (executor) Supports(list *libcni.NetworkConfigList, pluginDirs []string) error {
	return inprocess.Supports(list, pluginDirs)
}

func (x executor) Chain(a state.Attachment, r *remedy.Repair) Chain {
	return &inprocess.Chain{OwnIPAM: linked.Type(x.connect), Repair: r, IPTables: rules.Kind(a.IPTables), IPv6Off: a.IPv6Off}
}

func (executor) Commit(ctx context.Context, hold *os.File, changes []*plugin.Changes) []error {
	return plugin.Commit(ctx, hold, changes)
}

func (executor) CommitMissing(ctx context.Context, holds []*os.File, changes []*plugin.Changes) {
	plugin.CommitMissing(ctx, holds, changes)
}

func (executor) ListRules(ctx context.Context, changes *plugin.Changes) ([]rules.Listed, error) {
	return rules.List(ctx, &changes.Rules)
}

// IPTables returns the kind of iptables that this host's programs are now: nft or legacy; empty if that is not known.
func IPTables() string { return kernel.NewHost().IPTables() }

// validateExecutor checks Config.Executor.
func (c Config) validateExecutor() error {
	if c.Executor != ExecutorAuto && c.Executor != ExecutorPlugins {
		return errdefs.As(errdefs.Refused, fmt.Errorf("executor %q: want %q or %q", c.Executor, ExecutorAuto, ExecutorPlugins))
	}
	return nil
}

// inProcess returns nil if a network is executed in this process, else why its plugins
// are; option is Rules.Executor of the network.
func (c Config) inProcess(list *libcni.NetworkConfigList, option string) error {
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
	return c.withDefaults().inProcess(n.List, options.Executor)
}

// Usable tells which networks of a catalog an engine of this configuration can attach.
func (c Config) Usable(catalog *cniconf.Catalog) cniconf.Usable {
	c = c.withDefaults()
	return catalog.Usable(cniconf.Host{
		PluginDirs: c.PluginDirs,
		HasLink: func(name string) (bool, error) {
			_, found, err := c.Host.LinkMTU(name)
			return found, err
		},
		WhyPlugins: c.WhyPlugins,
		CheckKeys:  c.CheckKeys,
	})
}

// chain is one verb for one network, set up to run.
type chain struct {
	cni    *libcni.CNIConfig
	list   *libcni.NetworkConfigList
	runner *cniexec.Runner
	// changes are what is left to be committed; nil if plugins are executed.
	changes *plugin.Changes
}

// replaces tells whether a chain with these changes is executed in process in place of the
// plugins that made the attachment. Those may have been of a version that makes other rules.
func replaces(changes *plugin.Changes, a state.Attachment) bool {
	return changes != nil && a.Executor != state.InProcess
}

// chain returns libcni set up to execute one verb for an attachment in the namespace at path. partial is called with
// the result of each ADD but that of the last plugin; it is nil for other verbs. An attachment that is
// executed in process has no partial results: its rules wait for the whole chain.
func (o *operation) chain(a state.Attachment, path string, partial func(result []byte)) (*chain, error) {
	recorded, err := onrecord.List(a)
	if err != nil {
		return nil, err
	}
	list, err := onrecord.ListToRun(a)
	if err != nil {
		return nil, err
	}
	exec, changes := o.exec(a, recorded, partial != nil)
	runner, err := o.runner(exec, path)
	if err != nil {
		return nil, err
	}
	if partial != nil && changes == nil {
		runner.Added = func(index int, result []byte) {
			if index < len(list.Plugins)-1 {
				partial(result)
			}
		}
	}
	return &chain{libcni.NewCNIConfigWithCacheDir(o.config.pluginDirs(a), o.config.CacheDir, runner), list, runner, changes}, nil
}

// exec returns what executes the plugins of an attachment: for ADD what was chosen, else what
// executed ADD, as far as it can. Each can check and remove what the other made.
func (o *operation) exec(a state.Attachment, list *libcni.NetworkConfigList, adding bool) (invoke.Exec, *plugin.Changes) {
	log := o.attachmentLog(a)
	if adding && a.Executor != state.InProcess {
		return o.config.processes(o.hold, log), nil
	}
	if c := o.config.inProcessChain(list, o.config.pluginDirs(a), a); c != nil {
		return cniexec.Logged{Exec: c, Log: log}, c.Changes()
	}
	return o.config.processes(o.hold, log), nil
}

// inProcessChain returns what executes a chain in this process; nil if its plugins are
// executed. It does what it was chosen for, and what lacks a plugin. What was chosen is not
// judged again: what is supported depends on what the host has, which may have changed.
func (c Config) inProcessChain(list *libcni.NetworkConfigList, dirs []string, a state.Attachment) Chain {
	x := c.InProcess
	if x == nil || a.Executor != state.InProcess && (isInstalled(list, dirs) || x.Supports(list, nil) != nil) {
		return nil
	}
	return x.Chain(a, nil)
}

// madeByOtherIPTables tells whether plugins made the rules of an attachment with an iptables that the host's is not by now.
// They find none of them.
func (c Config) madeByOtherIPTables(a state.Attachment) bool {
	return a.Executor != state.InProcess && a.IPTables != "" && a.IPTables != c.Host.IPTables()
}

// isInstalled tells whether the directories have all plugins of a chain.
func isInstalled(list *libcni.NetworkConfigList, dirs []string) bool {
	n := cniconf.Network{Name: list.Name, List: list}
	return n.CheckPlugins(dirs) == nil
}

// processes returns what executes plugins outside of this process. They inherit hold,
// unless it is nil.
func (c Config) processes(hold *os.File, log hclog.Logger) invoke.Exec {
	if c.Exec != nil {
		return c.Exec
	}
	return &cniexec.Process{Hold: hold, Log: log}
}

// networkChain returns libcni set up to execute a verb for a network as a whole: plugins,
// where they are installed.
func (e *Engine) networkChain(n *cniconf.Network) *chain {
	exec, changes := e.config.processes(nil, e.config.Logger), (*plugin.Changes)(nil)
	if c := e.config.inProcessChain(n.List, e.config.PluginDirs, state.Attachment{}); c != nil {
		exec, changes = c, c.Changes()
	}
	runner := &cniexec.Runner{Exec: exec, Limit: e.config.CallTimeout}
	return &chain{libcni.NewCNIConfigWithCacheDir(e.config.PluginDirs, e.config.CacheDir, runner), n.List, runner, changes}
}

// commit makes what chains have left, all together, within the deadline of a call. A chain
// that is nil, or that executed plugins, has left nothing. The result has an error for each
// chain.
func (c Config) commit(ctx context.Context, hold *os.File, log hclog.Logger, chains ...*chain) []error {
	errs := make([]error, len(chains))
	var changes []*plugin.Changes
	var owners []int
	for i, c := range chains {
		if c != nil && c.changes != nil {
			changes, owners = append(changes, c.changes), append(owners, i)
		}
	}
	if len(changes) == 0 {
		return errs
	}
	limit, started := c.CallTimeout, time.Now()
	limited, stop := context.WithTimeoutCause(ctx, limit, &cniexec.CommitTimeoutError{Limit: limit})
	defer stop()
	for i, err := range c.InProcess.Commit(limited, hold, changes) {
		if err != nil && limited.Err() != nil {
			err = context.Cause(limited)
		}
		errs[owners[i]] = err
	}
	log.Debug("changes of networks committed", "networks", len(changes), "took", cniexec.Took(started))
	return errs
}
