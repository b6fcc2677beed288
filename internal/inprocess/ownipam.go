// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/internal/netns"
	pools "github.com/allocnet/allocnet/ipam"
	ipamplugin "github.com/allocnet/allocnet/ipam/plugin"
)

// Connect returns the connection of this host to the store of a pool of allocnet-ipam.
type Connect func(*pools.Config) ipamplugin.Connection

// ownIPAM is allocnet's IPAM plugin.
const ownIPAM = "allocnet-ipam"

// errNoConnection is a pool whose store this process does not know how to reach.
var errNoConnection = errors.New("the store is left to the program " + ownIPAM)

// noConnection is for a process that does not link what reads the agent's configuration. It
// knows when the store would have been asked: then the program is executed, which does.
type noConnection struct{ asked bool }

func (n *noConnection) Open() (pools.Store, pools.Host, error) {
	n.asked = true
	return nil, pools.Host{}, errNoConnection
}

func (n *noConnection) Fence() (time.Duration, error) {
	n.asked = true
	return 0, errNoConnection
}

func (n *noConnection) Index(context.Context, string, string) (int, error) {
	n.asked = true
	return 0, errNoConnection
}

func (n *noConnection) Ended(context.Context, string, string) (time.Time, error) {
	n.asked = true
	return time.Time{}, errNoConnection
}

func (n *noConnection) Gone(context.Context, string) (bool, error) {
	n.asked = true
	return false, errNoConnection
}

// ownPlugin returns the plugin; asked tells afterwards whether the store was missing.
func ownPlugin(c *call) (p *ipamplugin.Plugin, asked func() bool) {
	if c.connect != nil {
		return &ipamplugin.Plugin{Connect: c.connect, InUse: netns.Addresses}, func() bool { return false }
	}
	none := &noConnection{}
	return &ipamplugin.Plugin{Connect: func(*pools.Config) ipamplugin.Connection { return none }, InUse: netns.Addresses}, func() bool { return none.asked }
}

func ownCall(c *call) ipamplugin.Call {
	return ipamplugin.Call{ContainerID: c.containerID, Interface: c.ifName, Args: c.args, Config: c.config}
}

// understandsOwnIPAM refuses what the program refuses, with its error.
func understandsOwnIPAM(config []byte) error {
	_, err := pools.Parse(config)
	return err
}

func addOwnIPAM(c *call) (*current.Result, error) {
	p, asked := ownPlugin(c)
	result, err := p.Add(c.ctx, ownCall(c))
	if err == nil || !asked() {
		return result, err
	}
	path, err := findOwnIPAM(c)
	if err != nil {
		return nil, err
	}
	printed, err := invoke.ExecPluginWithResult(c.ctx, path, c.config, environment(c, "ADD"), nil)
	if err != nil {
		return nil, err
	}
	return current.NewResultFromResult(printed)
}

// delOwnIPAM succeeds without the store. With it, others get a reserved address earlier.
func delOwnIPAM(c *call) error {
	p, asked := ownPlugin(c)
	err := p.Del(c.ctx, ownCall(c))
	if !asked() {
		return err
	}
	if path, missing := findOwnIPAM(c); missing == nil {
		return invoke.ExecPluginWithoutResult(c.ctx, path, c.config, environment(c, "DEL"), nil)
	}
	return err
}

func checkOwnIPAM(c *call) error {
	p, _ := ownPlugin(c) // CHECK asks no store
	return p.Check(c.ctx, ownCall(c))
}

// statusOwnIPAM returns whether a pool can serve an ADD.
func statusOwnIPAM(c *call) error {
	p, asked := ownPlugin(c)
	err := p.Status(c.ctx, ownCall(c))
	if err == nil || !asked() {
		return err
	}
	path, err := findOwnIPAM(c)
	if err != nil {
		return err
	}
	return invoke.ExecPluginWithoutResult(c.ctx, path, c.config, environment(c, "STATUS"), nil)
}

func findOwnIPAM(c *call) (string, error) {
	path, err := invoke.FindInPath(ownIPAM, filepath.SplitList(c.path))
	if err != nil {
		return "", types.NewError(types.ErrTryAgainLater, errNoConnection.Error()+": "+err.Error(), "")
	}
	return path, nil
}

// environment returns that of the program for a verb of this attachment.
func environment(c *call, verb string) *invoke.Args {
	return &invoke.Args{Command: verb, ContainerID: c.containerID, NetNS: c.netns, PluginArgsStr: c.args, IfName: c.ifName, Path: c.path}
}
