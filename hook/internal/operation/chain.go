// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package operation

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/cniexec"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/state"
)

// Call is one verb for one network, set up to run.
type Call struct {
	CNI    *libcni.CNIConfig
	List   *libcni.NetworkConfigList
	Runner *cniexec.Runner
	// Changes are what is left to be committed; nil if plugins are executed.
	Changes *plugin.Changes
}

// Adding is what an ADD has beside other verbs.
type Adding struct {
	// Partial is called with the result of each plugin but the last.
	Partial func(result []byte)
	plugin.Seams
}

// RuleHandles are state.Attachment.RuleHandles after the commit of ADD.
func (c *Call) RuleHandles() map[string][]uint64 {
	if c.Changes == nil {
		return nil
	}
	return c.Changes.Rules.Handles
}

// Replaces tells whether a chain with these changes is executed in process in place of the
// plugins that made the attachment. Those may have been of a version that makes other rules.
func Replaces(changes *plugin.Changes, a state.Attachment) bool {
	return changes != nil && a.Executor != state.InProcess
}

// Call returns libcni set up to execute one verb for an attachment, whose conflist is decoded, in the namespace at path. adding is nil for verbs
// other than ADD. An attachment that is
// executed in process has no partial results: its rules wait for the whole chain.
func (o *Operation) Call(a state.Attachment, recorded *libcni.NetworkConfigList, path string, adding *Adding) (*Call, error) {
	list, err := onrecord.ListToRun(recorded, a)
	if err != nil {
		return nil, err
	}
	exec, changes := o.Exec(a, recorded, adding)
	runner, err := o.Runner(exec, path)
	if err != nil {
		return nil, err
	}
	if adding != nil && changes == nil {
		runner.Added = func(index int, result []byte) {
			if index < len(list.Plugins)-1 {
				adding.Partial(result)
			}
		}
	}
	return &Call{libcni.NewCNIConfigWithCacheDir(o.Config.DirsOf(a), o.Config.CacheDir, runner), list, runner, changes}, nil
}

// Exec returns what executes the plugins of an attachment: for ADD what was chosen, else what
// executed ADD, as far as it can. Each can remove what the other made.
func (o *Operation) Exec(a state.Attachment, list *libcni.NetworkConfigList, adding *Adding) (invoke.Exec, *plugin.Changes) {
	log, seams := o.AttachmentLog(a), plugin.Seams{}
	if adding != nil {
		if a.Executor != state.InProcess {
			return o.Config.Processes(o.Hold, log), nil
		}
		seams = adding.Seams
	}
	if c := o.Config.InProcessChain(list, o.Config.DirsOf(a), a, seams); c != nil {
		return cniexec.Logged{Exec: c, Log: log}, c.Changes()
	}
	return o.Config.Processes(o.Hold, log), nil
}

// NetworkChain returns libcni set up to execute a verb for a network as a whole: in process if its attachments are, and else plugins,
// where they are installed.
// Plugins that are installed, and not executed for attachments, may be older than the verb.
func (e *Env) NetworkChain(n *cniconf.Network) *Call {
	of := state.InProcess
	if e.Config.WhyPlugins(n) != nil {
		of = state.Plugins
	}
	exec, changes := e.Config.Processes(nil, e.Config.Logger), (*plugin.Changes)(nil)
	if c := e.Config.InProcessChain(n.List, e.Config.PluginDirs, state.Attachment{Executor: of}, plugin.Seams{}); c != nil {
		exec, changes = c, c.Changes()
	}
	runner := &cniexec.Runner{Exec: exec, Limit: e.Config.CallTimeout}
	return &Call{libcni.NewCNIConfigWithCacheDir(e.Config.PluginDirs, e.Config.CacheDir, runner), n.List, runner, changes}
}

// Commit is Commit for calls of the operation.
func (o *Operation) Commit(ctx context.Context, chains ...*Call) []error {
	return Commit(ctx, o.Config, o.Hold, o.Log, chains...)
}

// Commit makes what chains have left, all together, within the deadline of a call. A chain
// that is nil, or that executed plugins, has left nothing. The result has an error for each
// chain.
func Commit(ctx context.Context, c *config.Config, hold *os.File, log hclog.Logger, chains ...*Call) []error {
	errs := make([]error, len(chains))
	var changes []*plugin.Changes
	var owners []int
	for i, c := range chains {
		if c != nil && c.Changes != nil {
			changes, owners = append(changes, c.Changes), append(owners, i)
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

// Runner executes the plugins of one chain, for which libcni gets a path: that of the namespace of
// the allocation, or none.
func (o *Operation) Runner(exec invoke.Exec, path string) (*cniexec.Runner, error) {
	r := &cniexec.Runner{Exec: exec, Limit: o.Config.CallTimeout}
	if path == "" {
		return r, nil
	}
	ns, err := o.Namespace()
	if err != nil {
		return nil, err
	}
	r.Namespace = cniexec.Namespace{Path: path, Handle: ns.Handle()}
	return r, nil
}

// InOrder calls do for 0 to n-1, all at the same time, except that do(i) starts only
// when every do(j) for j in dependencies(i) has returned. When the context ends, no
// dependency is waited for any more; do is still called for each. The dependencies must
// not form a cycle.
func InOrder(ctx context.Context, n int, dependencies func(i int) []int, do func(i int)) {
	done := make([]chan struct{}, n)
	waitFor := make([][]int, n) // computed before do changes anything
	for i := range n {
		done[i], waitFor[i] = make(chan struct{}), dependencies(i)
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			defer close(done[i])
			for _, j := range waitFor[i] {
				select {
				case <-done[j]:
				case <-ctx.Done():
				}
			}
			do(i)
		})
	}
	all.Wait()
}
