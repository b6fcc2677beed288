// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"os"
	"os/signal"
	"reflect"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/version"
	"github.com/allocnet/allocnet/nomad/driver/proto"
)

// Name of the driver in jobs.
const Name = "allocnet"

// apiVersion is the version of Nomad's driver API, the same from 1.0 to 2.0.
const apiVersion = "v0.1.0"

// handshake is the handshake of Nomad and its plugins.
var handshake = plugin.HandshakeConfig{
	ProtocolVersion:  2,
	MagicCookieKey:   "NOMAD_PLUGIN_MAGIC_COOKIE",
	MagicCookieValue: "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255",
}

// Serve serves the driver until Nomad ends this process. The plugin block of the
// Nomad agent overrides the fields of c.
func Serve(c hook.Config, log hclog.Logger) {
	// Nomad reads the log from a pipe. If the agent is killed, the driver must not
	// die from logging: the next agent reattaches to this process.
	signal.Ignore(unix.SIGPIPE)
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: handshake,
		Plugins:         plugins(newDriver(c, log)),
		GRPCServer:      plugin.DefaultGRPCServer,
		Logger:          log,
	})
}

// Wanted reports whether Nomad started this process to serve the driver.
func Wanted() bool { return os.Getenv(handshake.MagicCookieKey) == handshake.MagicCookieValue }

// plugins are the two services of a driver plugin.
func plugins(d *driver) plugin.PluginSet {
	return plugin.PluginSet{
		"base": service{desc: &baseService, driver: d}, "driver": service{desc: &driverService, driver: d},
	}
}

// pluginInfo returns the type, the name and the versions of the plugin.
func (*driver) pluginInfo(context.Context, *emptypb.Empty) (*proto.PluginInfoResponse, error) {
	return &proto.PluginInfoResponse{
		Type:              proto.PluginType_DRIVER,
		PluginApiVersions: []string{apiVersion},
		PluginVersion:     version.Version,
		Name:              Name,
	}, nil
}

// configSchema returns the schema of the plugin block.
func (*driver) configSchema(context.Context, *emptypb.Empty) (*proto.ConfigSchemaResponse, error) {
	return &proto.ConfigSchemaResponse{Spec: schemaOf(reflect.TypeFor[pluginConfig]())}, nil
}

// setConfig reads the plugin block. It never fails, because the Nomad agent would not
// start. Mistakes make the driver unhealthy instead.
func (d *driver) setConfig(_ context.Context, r *proto.SetConfigRequest) (*emptypb.Empty, error) {
	d.settings.configure(r.GetMsgpackConfig())
	return &emptypb.Empty{}, nil
}
