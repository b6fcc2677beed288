// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"os"
	"os/signal"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	base "github.com/hashicorp/nomad/plugins/base/proto"
	"github.com/hashicorp/nomad/plugins/drivers/proto"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/version"
)

// Name is the driver's in jobs.
const Name = "allocnet"

// apiVersion is that of Nomad's driver interface, the same from 1.0 to 2.0.
const apiVersion = "v0.1.0"

// handshake is what Nomad and its plugins know each other by.
var handshake = plugin.HandshakeConfig{
	ProtocolVersion:  2,
	MagicCookieKey:   "NOMAD_PLUGIN_MAGIC_COOKIE",
	MagicCookieValue: "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255",
}

// Serve serves the driver on this process's standard output until Nomad ends
// it. c is the configuration that the agent's plugin block is laid over.
func Serve(c hook.Config, log hclog.Logger) {
	// Nomad reads the log from a pipe. The agent may be killed and come back to
	// this process, which must not die of having logged meanwhile.
	signal.Ignore(unix.SIGPIPE)
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: handshake,
		Plugins:         plugins(New(c, log)),
		GRPCServer:      plugin.DefaultGRPCServer,
		Logger:          log,
	})
}

// Wanted tells whether Nomad started this process to serve the driver.
func Wanted() bool { return os.Getenv(handshake.MagicCookieKey) == handshake.MagicCookieValue }

// plugins are the two services that Nomad asks a driver plugin for.
func plugins(d *Driver) plugin.PluginSet {
	return plugin.PluginSet{
		"base":   service{register: func(s *grpc.Server) { base.RegisterBasePluginServer(s, &basePlugin{driver: d}) }},
		"driver": service{register: func(s *grpc.Server) { proto.RegisterDriverServer(s, d) }},
	}
}

// service is one gRPC service as go-plugin wants it.
type service struct {
	plugin.NetRPCUnsupportedPlugin
	register func(*grpc.Server)
}

// GRPCServer registers the service.
func (s service) GRPCServer(_ *plugin.GRPCBroker, server *grpc.Server) error {
	s.register(server)
	return nil
}

// GRPCClient refuses: this program serves.
func (service) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("the driver is served, not used")
}

// basePlugin is what every plugin of Nomad has to answer.
type basePlugin struct {
	base.UnimplementedBasePluginServer
	driver *Driver
}

// PluginInfo says what this is.
func (*basePlugin) PluginInfo(context.Context, *base.PluginInfoRequest) (*base.PluginInfoResponse, error) {
	return &base.PluginInfoResponse{
		Type:              base.PluginType_DRIVER,
		PluginApiVersions: []string{apiVersion},
		PluginVersion:     version.Version,
		Name:              Name,
	}, nil
}

// ConfigSchema returns the schema of the agent's plugin block.
func (*basePlugin) ConfigSchema(context.Context, *base.ConfigSchemaRequest) (*base.ConfigSchemaResponse, error) {
	return &base.ConfigSchemaResponse{Spec: pluginSchema}, nil
}

// SetConfig takes the agent's plugin block. It does not fail: a plugin that
// does keeps the agent from starting. What is wrong shows in the health.
func (b *basePlugin) SetConfig(_ context.Context, r *base.SetConfigRequest) (*base.SetConfigResponse, error) {
	b.driver.configure(r.GetMsgpackConfig())
	return &base.SetConfigResponse{}, nil
}
