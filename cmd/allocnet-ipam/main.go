// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command allocnet-ipam is a CNI IPAM plugin that assigns addresses which are unique in a
// cluster. It can take the place of host-local in any network configuration. It needs no
// daemon.
package main

import (
	"context"
	"os"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/cluster/connect"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/plugin"
	"github.com/allocnet/allocnet/internal/netns"
	own "github.com/allocnet/allocnet/internal/version"
)

// name is the plugin's type.
const name = "allocnet-ipam"

// about is the output of a call without CNI_COMMAND.
const about = "CNI " + name + " plugin v" + own.Version

// timeout is the deadline of a call. An ADD may wait for a reserved address until its former
// holder is known to have ended.
const timeout = 20 * time.Second

func main() {
	p := &plugin.Plugin{Connect: connected, InUse: netns.Addresses}
	funcs := skel.CNIFuncs{Add: add(p), Check: call(p.Check), Del: call(p.Del), GC: call(p.GC), Status: call(p.Status)}
	if err := skel.PluginMainFuncsWithError(funcs, version.All, about); err != nil {
		if failed := err.Print(); failed != nil {
			_, _ = os.Stderr.WriteString(failed.Error()) // no other output is left
		}
		os.Exit(1)
	}
}

func connected(c *ipam.Config) plugin.Connection { return connect.New(c.ConfigDir, c.StateDir) }

// add returns ADD as skel's function, which prints the result.
func add(p *plugin.Plugin) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		cniVersion, err := (&version.ConfigDecoder{}).Decode(args.StdinData)
		if err != nil {
			return err
		}
		ctx, stop := context.WithTimeout(context.Background(), timeout)
		defer stop()
		result, err := p.Add(ctx, callOf(args))
		if err != nil {
			return err
		}
		return types.PrintResult(result, cniVersion)
	}
}

// call returns a verb without a result as skel's function.
func call(verb func(context.Context, plugin.Call) error) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		ctx, stop := context.WithTimeout(context.Background(), timeout)
		defer stop()
		return verb(ctx, callOf(args))
	}
}

func callOf(args *skel.CmdArgs) plugin.Call {
	return plugin.Call{ContainerID: args.ContainerID, Interface: args.IfName, Args: args.Args, Config: args.StdinData}
}
