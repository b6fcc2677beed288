// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/nomad/driver/drivertest"
	"github.com/allocnet/allocnet/nomad/driver/proto"
)

// connection has the clients of both services.
type connection struct{ plugin.NetRPCUnsupportedPlugin }

func (connection) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error { return nil }

func (connection) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return c, nil
}

// startPlugin starts and configures the driver as Nomad does.
func startPlugin(t *testing.T) (*grpc.ClientConn, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(allocnet, "plugin")
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: plugin.HandshakeConfig{
			ProtocolVersion: 2, MagicCookieKey: "NOMAD_PLUGIN_MAGIC_COOKIE",
			MagicCookieValue: "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255",
		},
		Plugins: plugin.PluginSet{"driver": connection{}}, Cmd: cmd,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, Logger: hclog.NewNullLogger(),
	})
	t.Cleanup(client.Kill)
	protocol, err := client.Client()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := protocol.Dispense("driver")
	if err != nil {
		t.Fatal(err)
	}
	conn := raw.(*grpc.ClientConn)
	config := pack(t, map[string]any{"conf_dir": confDir, "plugin_dirs": []string{sandbox.PluginDir()}})
	if _, err := drivertest.SetConfig(t.Context(), conn, &proto.SetConfigRequest{MsgpackConfig: config}); err != nil {
		t.Fatal(err)
	}
	return conn, cmd
}

func pack(t *testing.T, value any) []byte {
	t.Helper()
	var data []byte
	if err := codec.NewEncoderBytes(&data, &codec.MsgpackHandle{}).Encode(value); err != nil {
		t.Fatal(err)
	}
	return data
}

// resident returns the resident memory of a process in KiB.
func resident(t *testing.T, pid int) (kib int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(status), "VmRSS:")
	if _, err := fmt.Sscan(rest, &kib); !found || err != nil {
		t.Fatalf("%v in %s", err, status)
	}
	return kib
}

// TestLongMemory attaches and detaches 500 times. The memory, threads and open files of
// the plugin stay constant.
func TestLongMemory(t *testing.T) {
	for name, text := range conf {
		sandbox.WriteFile(t, confDir+"/"+name, text)
	}
	driver, cmd := startPlugin(t)
	const width, rounds = 5, 500
	type counts struct{ kib, threads, files int }
	count := func() counts {
		entries := func(what string) int {
			list, err := os.ReadDir(fmt.Sprintf("/proc/%d/%s", cmd.Process.Pid, what))
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		return counts{resident(t, cmd.Process.Pid), entries("task"), entries("fd")}
	}
	var paths []string
	for i := range width {
		path, err := netns.Create(netns.DefaultDir, fmt.Sprintf("memory-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		defer netns.Remove(path)
		paths = append(paths, path)
	}
	run := func(times int) {
		var all sync.WaitGroup
		for i, path := range paths {
			all.Go(func() {
				for range times / width {
					attachAndDetach(t, driver, fmt.Sprintf("memory-%d", i), path)
				}
			})
		}
		all.Wait()
	}
	run(rounds / 5) // warm-up
	before := count()
	run(rounds)
	var after counts
	sandbox.Eventually(t, "the plugin has no more than before", func() bool {
		after = count()
		return after.kib <= before.kib+8<<10 && after.files <= before.files+5
	}, func() string { return fmt.Sprintf("before %+v, after %d rounds %+v", before, rounds, after) })
	// Threads stay, as many as were ever needed at once: a loaded machine needs
	// more, and a leak has one for each round.
	if after.threads > before.threads+rounds/5 {
		t.Errorf("before %+v, after %d rounds %+v", before, rounds, after)
	}
	t.Logf("before %+v, after %d rounds %+v", before, rounds, after)
	requireNoState(t)
}

func attachAndDetach(t *testing.T, driver *grpc.ClientConn, id, path string) {
	task := &proto.TaskConfig{
		Id: id + "/net/1", Name: "net", AllocId: id, AllocDir: "/nonexistent",
		NetworkIsolationSpec: &proto.NetworkIsolationSpec{Mode: proto.NetworkIsolationSpec_GROUP, Path: path},
		MsgpackDriverConfig:  pack(t, map[string]any{"network": map[string]any{"storage": map[string]any{}}}),
	}
	ctx := t.Context()
	_, err := drivertest.StartTask(ctx, driver, &proto.StartTaskRequest{Task: task})
	if err == nil {
		_, err = drivertest.StopTask(ctx, driver, &proto.StopTaskRequest{TaskId: task.Id})
	}
	if err == nil {
		_, err = drivertest.WaitTask(ctx, driver, &proto.WaitTaskRequest{TaskId: task.Id})
	}
	if err == nil {
		_, err = drivertest.DestroyTask(ctx, driver, &proto.DestroyTaskRequest{TaskId: task.Id})
	}
	if err != nil {
		t.Error(err)
	}
}
