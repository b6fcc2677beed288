// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/inprocess/within"
)

// Chain executes the plugins of one network for one verb. It is made anew for each, and
// its plugins run one after another. The zero value executes all verbs but CHECK.
type Chain struct {
	version.PluginDecoder

	// OwnIPAM does the work of allocnet-ipam, which is above this package. Nil: an attachment with it fails.
	OwnIPAM *plugin.Type
	// Repair is what CHECK finds missing, and makes unless it is a DryRun. Other verbs need none.
	Repair *remedy.Repair
	// IPTables is which iptables makes the rules, or has made them. Empty: that of the host.
	IPTables rules.Kind
	// RuleHandles are those of rules.Set.
	RuleHandles map[string][]uint64
	// Fresh is that of rules.Set.
	Fresh bool
	// IPv6Off has ADD make interfaces without IPv6.
	IPv6Off bool
	// Seams are what calls have of the engine.
	Seams plugin.Seams

	changes plugin.Changes
}

var _ invoke.Exec = (*Chain)(nil)

// FindInPath returns the plugin's type: there is no binary to find.
func (*Chain) FindInPath(plugin string, _ []string) (string, error) { return plugin, nil }

// ExecPlugin executes a plugin once. Errors are *types.Error, as the reference plugin
// prints it, or the context's cause. A panic, which would end a plugin's process, is an
// error: this process serves other allocations as well.
func (c *Chain) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) (out []byte, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			out, err = nil, within.Recovered(reason).CNIError("plugin "+filepath.Base(path))
		}
	}()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	out, err = c.exec(ctx, filepath.Base(path), stdin, environ)
	if err == nil {
		return out, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if own, ok := errors.AsType[*types.Error](err); ok {
		return nil, own
	}
	return nil, &failure{types.NewError(types.ErrInternal, err.Error(), ""), err}
}

// failure is an answer as the reference plugin would give it, with what it was made of.
type failure struct {
	error
	cause error
}

func (f *failure) Unwrap() []error { return []error{f.error, f.cause} }

// Cause is what the answer was made of.
func (f *failure) Cause() error { return f.cause }

// Changes returns what is left to be committed after the chain has succeeded.
func (c *Chain) Changes() *plugin.Changes { return &c.changes }

func (c *Chain) exec(ctx context.Context, name string, stdin []byte, environ []string) ([]byte, error) {
	call, err := plugin.NewCall(ctx, stdin, environ)
	if err != nil {
		return nil, err
	}
	c.changes.Rules.Kind, c.changes.Rules.Handles, c.changes.Rules.Fresh, c.changes.Rules.Repair = c.IPTables, c.RuleHandles, c.Fresh, c.Repair
	call.Changes, call.IPAM, call.Repair, call.IPv6Off = &c.changes, c.ipam, c.Repair, c.IPv6Off
	call.Isolation, call.Lease = c.Seams.Isolation, c.Seams.Lease
	p, ok := plugins[name]
	if !ok {
		return nil, types.NewError(types.ErrInvalidEnvironmentVariables, "plugin type "+name+" is not executed in process", "")
	}
	switch call.Verb {
	case "VERSION":
		return json.Marshal(version.All)
	case "ADD":
		result, err := p.Add(call)
		if err != nil {
			return nil, err
		}
		return plugin.Encode(result, call.Version)
	case "DEL":
		return nil, p.Del(call)
	case "CHECK":
		// A failure does not keep the plugins after it from their part; nothing is repaired of an attachment whose interface is gone.
		if len(c.Repair.Unrepairable) == 0 {
			c.Repair.Fail(p.Repair(call))
		}
	case "STATUS":
		return nil, call.Status()
	}
	return nil, nil // of GC the reference plugins of these types have nothing to do
}

// ipam returns the IPAM plugin of a type, and whether it is executed in process.
func (c *Chain) ipam(name string) (plugin.Type, bool) {
	if name == ownIPAM {
		if c.OwnIPAM == nil {
			return plugin.Type{}, false
		}
		return *c.OwnIPAM, true
	}
	p, ok := ipams[name]
	return p, ok
}
