// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package chaos

import (
	"context"
	"os/exec"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-msgpack/v2/codec"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/allocnet/allocnet/nomad/driver/drivertest"
	"github.com/allocnet/allocnet/nomad/driver/proto"
)

// driver is an operation of the driver plugin, which is started and called as Nomad does.
type driver struct {
	*host
	// stands is whether the operation stops a task that was started before.
	stands bool
	handle *proto.TaskHandle
	cmd    *exec.Cmd
	client *grpc.ClientConn
	end    func()
}

// connection is the client's side of the plugin's services.
type connection struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (connection) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error { return nil }

func (connection) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return c, nil
}

const taskID = "k1/net/1"

// serve starts the plugin, and configures it.
func (d *driver) serve() {
	d.Helper()
	d.cmd = d.command("plugin")
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: 2, MagicCookieKey: "NOMAD_PLUGIN_MAGIC_COOKIE",
			MagicCookieValue: "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255",
		},
		Plugins: goplugin.PluginSet{"driver": connection{}}, Cmd: d.cmd, Logger: hclog.NewNullLogger(),
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC}, UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: d.TempDir()},
	})
	d.end = client.Kill
	d.Cleanup(client.Kill)
	protocol, err := client.Client()
	if err != nil {
		d.Fatal(err)
	}
	raw, err := protocol.Dispense("driver")
	if err != nil {
		d.Fatal(err)
	}
	conn := raw.(*grpc.ClientConn)
	config := d.pack(map[string]any{"conf_dir": d.conf, "plugin_dirs": []string{d.plugins}, "state_dir": d.state})
	if _, err := drivertest.SetConfig(d.Context(), conn, &proto.SetConfigRequest{MsgpackConfig: config}); err != nil {
		d.Fatal(err)
	}
	d.client = conn
}

func (d *driver) pack(value any) []byte {
	d.Helper()
	var data []byte
	if err := codec.NewEncoderBytes(&data, &codec.MsgpackHandle{}).Encode(value); err != nil {
		d.Fatal(err)
	}
	return data
}

// startTask attaches two networks.
func (d *driver) startTask() (*proto.TaskHandle, error) {
	answer, err := drivertest.StartTask(context.Background(), d.client, &proto.StartTaskRequest{Task: &proto.TaskConfig{
		Id: taskID, Name: "net", AllocId: "k1", AllocDir: "/nonexistent",
		NetworkIsolationSpec: &proto.NetworkIsolationSpec{Mode: proto.NetworkIsolationSpec_GROUP, Path: d.sandbox},
		MsgpackDriverConfig:  d.pack(map[string]any{"network": map[string]any{"storage": map[string]any{}, "peer": map[string]any{}}}),
	}})
	return answer.Handle, err
}

func (d *driver) prepare() []string {
	d.Helper()
	d.serve()
	if !d.stands {
		return ids[:1]
	}
	d.startAgain()
	return nil
}

// startAgain starts a task that Nomad has no handle of, as Nomad does.
func (d *driver) startAgain() {
	d.Helper()
	var err error
	if d.handle, err = d.startTask(); err != nil {
		d.Fatal(err)
	}
}

func (d *driver) start() run {
	done := make(chan struct{})
	go func() {
		if d.stands {
			_, _ = drivertest.StopTask(context.Background(), d.client, &proto.StopTaskRequest{TaskId: taskID}) // killed or not
		} else {
			_, _ = d.startTask() // killed or not
		}
		close(done)
	}()
	return run{d.cmd.Process, done}
}

// repair does as Nomad does: it starts the plugin again, calls RecoverTask if it has a
// handle of the task, and destroys the task.
func (d *driver) repair() {
	d.Helper()
	d.end()
	d.serve()
	if d.handle == nil {
		d.startAgain()
	} else {
		_, _ = drivertest.RecoverTask(context.Background(), d.client, &proto.RecoverTaskRequest{TaskId: taskID, Handle: d.handle}) // the task may be incomplete or gone
	}
	if _, err := drivertest.DestroyTask(context.Background(), d.client, &proto.DestroyTaskRequest{TaskId: taskID, Force: true}); err != nil {
		d.Error(err)
	}
	d.end()
}
