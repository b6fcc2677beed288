// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package linked does the work of allocnet-ipam in the process of the engine. The engine gives it to the chains of
// internal/inprocess, so that these import neither state nor the parts of a pool.
package linked

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	pools "github.com/allocnet/allocnet/cluster/ipam"
	ipamplugin "github.com/allocnet/allocnet/cluster/ipam/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/netns"
)

// Connect returns the connection of this host to the store of a pool of allocnet-ipam.
type Connect func(*pools.Config) ipamplugin.Connection

// program is the name of the IPAM plugin of allocnet.
const program = "allocnet-ipam"

// errNoConnection is a pool whose store this process does not know how to reach.
var errNoConnection = errors.New("the store is left to the program " + program)

// noConnection is for a process that does not link what reads the agent's configuration. It
// knows when the store would have been asked: then the program is executed, which does.
type noConnection struct{ asked bool }

func (n *noConnection) ask() error {
	n.asked = true
	return errNoConnection
}

func (n *noConnection) Open() (pools.Store, pools.Host, error) { return nil, pools.Host{}, n.ask() }

func (n *noConnection) Fence() (time.Duration, error) { return 0, n.ask() }

func (n *noConnection) Index(context.Context, string, string) (int, error) { return 0, n.ask() }

func (n *noConnection) Ended(context.Context, string, string) (time.Time, error) {
	return time.Time{}, n.ask()
}

func (n *noConnection) Gone(context.Context, string) (bool, error) { return false, n.ask() }

// verbs are those of allocnet-ipam with a connection, which may be nil.
type verbs struct{ connect Connect }

// Type returns what does the work of allocnet-ipam in this process. Without a connection, which may be nil, the program is
// executed where the store of a pool is needed.
func Type(connect Connect) *plugin.Type {
	x := verbs{connect}
	return &plugin.Type{Add: x.add, Del: x.del, Status: x.status}
}

// plugin returns the plugin, and what tells afterwards whether the store was missing.
func (x verbs) plugin() (*ipamplugin.Plugin, *noConnection) {
	connect, none := x.connect, &noConnection{}
	if connect == nil {
		connect = func(*pools.Config) ipamplugin.Connection { return none }
	}
	return &ipamplugin.Plugin{Connect: connect, InUse: netns.Addresses}, none
}

func ownCall(c *plugin.Call) ipamplugin.Call {
	return ipamplugin.Call{ContainerID: c.ContainerID, Interface: c.IfName, Args: c.Args, Config: c.Config}
}

func (x verbs) add(c *plugin.Call) (*current.Result, error) {
	p, none := x.plugin()
	result, err := p.Add(c.Ctx, ownCall(c))
	if err == nil || !none.asked {
		return result, err
	}
	path, err := findOwnIPAM(c)
	if err != nil {
		return nil, err
	}
	printed, err := invoke.ExecPluginWithResult(c.Ctx, path, c.Config, environment(c, "ADD"), nil)
	if err != nil {
		return nil, err
	}
	return current.NewResultFromResult(printed)
}

// del succeeds without the store. With it, others get a reserved address earlier.
func (x verbs) del(c *plugin.Call) error {
	p, none := x.plugin()
	err := p.Del(c.Ctx, ownCall(c))
	if !none.asked {
		return err
	}
	if path, missing := findOwnIPAM(c); missing == nil {
		return invoke.ExecPluginWithoutResult(c.Ctx, path, c.Config, environment(c, "DEL"), nil)
	}
	return err
}

func (x verbs) status(c *plugin.Call) error {
	p, none := x.plugin()
	err := p.Status(c.Ctx, ownCall(c))
	if err == nil || !none.asked {
		return err
	}
	path, err := findOwnIPAM(c)
	if err != nil {
		return err
	}
	return invoke.ExecPluginWithoutResult(c.Ctx, path, c.Config, environment(c, "STATUS"), nil)
}

func findOwnIPAM(c *plugin.Call) (string, error) {
	path, err := invoke.FindInPath(program, filepath.SplitList(c.Path))
	if err != nil {
		return "", types.NewError(types.ErrTryAgainLater, errNoConnection.Error()+": "+err.Error(), "")
	}
	return path, nil
}

// environment returns that of the program for a verb of this attachment.
func environment(c *plugin.Call, verb string) *invoke.Args {
	return &invoke.Args{Command: verb, ContainerID: c.ContainerID, NetNS: c.Netns, PluginArgsStr: c.Args, IfName: c.IfName, Path: c.Path}
}
