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

	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/inprocess/within"
)

// Chain executes the plugins of one network for one verb. It is made anew for each, and
// its plugins run one after another. The zero value is usable.
type Chain struct {
	version.PluginDecoder

	// Connect is for the pools of allocnet-ipam. Nil: the program is executed where the store
	// of a pool is needed.
	Connect Connect
	// Repair is what CHECK finds missing and makes. Nil: CHECK only looks.
	Repair *remedy.Repair
	// IPTables is which iptables makes the rules, or has made them. Empty: that of the host.
	IPTables rules.Kind

	changes Changes
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
	var own *types.Error
	if errors.As(err, &own) {
		return nil, own
	}
	return nil, &failure{types.NewError(types.ErrInternal, err.Error(), ""), err}
}

// failure is an answer as the reference plugin would give it, with what it was made of.
type failure struct {
	error
	cause error
}

// Unwrap gives both.
func (f *failure) Unwrap() []error { return []error{f.error, f.cause} }

// Cause is what the answer was made of.
func (f *failure) Cause() error { return f.cause }

// Changes returns what is left to be committed after the chain has succeeded.
func (c *Chain) Changes() *Changes { return &c.changes }

func (c *Chain) exec(ctx context.Context, name string, stdin []byte, environ []string) ([]byte, error) {
	call, err := newCall(ctx, stdin, environ)
	if err != nil {
		return nil, err
	}
	c.changes.rules.Kind, c.changes.rules.Repair = c.IPTables, c.Repair
	call.changes, call.connect, call.repair = &c.changes, c.Connect, c.Repair
	defer call.sysctls.Close() //nolint:errcheck // it has nothing to write
	p, ok := plugins[name]
	if !ok {
		return nil, types.NewError(types.ErrInvalidEnvironmentVariables, "plugin type "+name+" is not executed in process", "")
	}
	switch call.verb {
	case "VERSION":
		return json.Marshal(version.All)
	case "ADD":
		result, err := p.add(call)
		if err != nil {
			return nil, err
		}
		return encode(result, call.version)
	case "DEL":
		return nil, p.del(call)
	case "CHECK":
		if c.Repair != nil {
			c.repair(p, call)
			return nil, nil
		}
		return nil, p.check(call)
	case "STATUS":
		return nil, call.status()
	}
	return nil, nil // GC: the reference plugins of these types have nothing to do
}

// repair does what a plugin of the chain has to repair. A failure does not keep the plugins
// after it from their part; nothing is repaired of an attachment whose interface is gone.
func (c *Chain) repair(p plugin, call *call) {
	if len(c.Repair.Unrepairable) == 0 {
		c.Repair.Fail(p.repair(call))
	}
}
