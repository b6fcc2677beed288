// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-msgpack/v2/codec"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/networkstatus"
	"github.com/allocnet/allocnet/nomad/driver/drivertest"
	"github.com/allocnet/allocnet/nomad/driver/proto"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// engineFake attaches nothing: its attachments are existing interfaces of the
// namespace.
type engineFake struct {
	mu         sync.Mutex
	interfaces map[string]string // by network
	extendErr  error
	releaseErr error
	requests   []hook.Request
	released   []string
	attached   []hook.Attachment
}

func (e *engineFake) Extend(_ context.Context, r hook.Request) (*hook.Allocation, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests = append(e.requests, r)
	for _, n := range r.Networks {
		if e.extendErr != nil {
			r.Notify(hook.Step{Network: n.Name, Interface: n.Interface, Attempt: 1, Of: 3, Err: e.extendErr})
			return nil, e.extendErr
		}
		e.attached = append(e.attached, hook.Attachment{
			Network: n.Name, Interface: e.interfaces[n.Name], Task: r.Task, Phase: state.Attached,
			Observed: hook.Observed{Addresses: []netip.Prefix{netip.MustParsePrefix("10.1.0.9/24")}},
		})
	}
	return &hook.Allocation{ID: r.ID, Netns: r.Netns, Attachments: e.attached}, nil
}

func (e *engineFake) Release(ctx context.Context, _, task string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := cmp.Or(e.releaseErr, ctx.Err()); err != nil {
		return err
	}
	e.released = append(e.released, task)
	e.attached = slices.DeleteFunc(e.attached, func(n hook.Attachment) bool { return n.Task == task })
	return nil
}

func (e *engineFake) Status(_ context.Context, id string) (*hook.Allocation, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.attached) == 0 {
		return nil, fmt.Errorf("allocation %s %w", id, state.ErrNotFound)
	}
	return &hook.Allocation{ID: id, Netns: own, Attachments: slices.Clone(e.attached)}, nil
}

// own is the test's own namespace. The fake attaches its lo.
const own = "/proc/self/ns/net"

// serve serves a driver on a socket.
func serve(t *testing.T, d *driver) *grpc.ClientConn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	for _, p := range plugins(d) {
		if err := p.(service).GRPCServer(nil, server); err != nil {
			t.Fatal(err)
		}
	}
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// newTestDriver returns a driver on a fake engine.
func newTestDriver(e *engineFake) *driver {
	d := newDriver(hook.Config{}, hclog.NewNullLogger())
	d.settings.engine, d.settings.broken, d.interval = e, nil, time.Millisecond
	return d
}

func pack(t *testing.T, value any) []byte {
	t.Helper()
	var data []byte
	if err := codec.NewEncoderBytes(&data, &codec.MsgpackHandle{}).Encode(value); err != nil {
		t.Fatal(err)
	}
	return data
}

// network is a config block's body; the rest of its keys are null, as Nomad
// sends them.
type network map[string]any

func taskOf(t *testing.T, networks map[string]network) *proto.TaskConfig {
	t.Helper()
	for _, n := range networks {
		for _, key := range []string{"interface", "ips", "mac", "mtu", "ports", "default_route", "cni_args", "infiniband_guid", "advertise", "bandwidth", "port_mappings"} {
			if _, ok := n[key]; !ok {
				n[key] = nil
			}
		}
	}
	return &proto.TaskConfig{
		Id: "a1/net/1", Name: "net", AllocId: "a1", Namespace: "prod", JobId: "db", TaskGroupName: "g", AllocDir: t.TempDir(),
		NetworkIsolationSpec: &proto.NetworkIsolationSpec{Mode: proto.NetworkIsolationSpec_GROUP, Path: own},
		MsgpackDriverConfig:  pack(t, map[string]any{"network": networks}),
		Resources:            &proto.Resources{Ports: []*proto.PortMapping{{Label: "repl", Value: 25000, To: 5433, HostIp: "192.0.2.1"}}},
	}
}

func TestBase(t *testing.T) {
	d := newDriver(hook.Config{StateDir: t.TempDir()}, hclog.NewNullLogger())
	c := serve(t, d)
	info, err := drivertest.PluginInfo(t.Context(), c, &emptypb.Empty{})
	if err != nil || info.Name != "allocnet" || info.Type != proto.PluginType_DRIVER || !slices.Equal(info.PluginApiVersions, []string{"v0.1.0"}) {
		t.Errorf("info %v, %v", info, err)
	}
	schema, err := drivertest.ConfigSchema(t.Context(), c, &emptypb.Empty{})
	if err != nil || len(schema.Spec.Block.(*proto.Spec_Object).Object.Attributes) != 5 || schema.Spec.Block.(*proto.Spec_Object).Object.Attributes["conf_dir"].Block.(*proto.Spec_Attr).Attr.Type != "string" {
		t.Errorf("schema %v, %v", schema, err)
	}
	dir := t.TempDir()
	for name, config := range map[string][]byte{
		"no state directory": pack(t, map[string]any{"state_dir": "/proc/nonexistent/state"}),
		"no msgpack":         []byte("\xc1"),
	} {
		if _, err := drivertest.SetConfig(t.Context(), c, &proto.SetConfigRequest{MsgpackConfig: config}); err != nil {
			t.Errorf("%s: %v, which would keep the agent from starting", name, err)
		}
		if f := d.settings.fingerprint(); f.Health != proto.FingerprintResponse_UNHEALTHY || f.HealthDescription == "" {
			t.Errorf("%s: the health is %v", name, f)
		}
	}
	if _, err := drivertest.SetConfig(t.Context(), c, &proto.SetConfigRequest{MsgpackConfig: pack(t, map[string]any{"conf_dir": dir, "plugin_dirs": nil})}); err != nil {
		t.Error(err)
	}
	if !slices.Equal(d.settings.config.ConfDirs, []string{dir}) || d.settings.broken != nil {
		t.Errorf("configured %+v, %v", d.settings.config, d.settings.broken)
	}
}

func TestSchemaAndCapabilities(t *testing.T) {
	c := serve(t, newTestDriver(&engineFake{}))
	schema, err := drivertest.TaskConfigSchema(t.Context(), c, &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	block := schema.Spec.Block.(*proto.Spec_Object).Object.Attributes["network"].Block.(*proto.Spec_BlockMap).BlockMap
	if !slices.Equal(block.Labels, []string{"name"}) || block.Name != "network" {
		t.Errorf("schema %v", schema)
	}
	kinds := map[string]string{}
	for name, spec := range block.Nested.Block.(*proto.Spec_Object).Object.Attributes {
		if value, ok := spec.Block.(*proto.Spec_BlockValue); ok {
			for inner, spec := range value.BlockValue.Nested.Block.(*proto.Spec_Object).Object.Attributes {
				kinds[name+"."+inner] = spec.Block.(*proto.Spec_Attr).Attr.Name + " " + spec.Block.(*proto.Spec_Attr).Attr.Type
			}
			continue
		}
		kinds[name] = spec.Block.(*proto.Spec_Attr).Attr.Name + " " + spec.Block.(*proto.Spec_Attr).Attr.Type
	}
	want := map[string]string{
		"interface": "interface string", "ips": "ips list(string)", "mac": "mac string", "mtu": "mtu number", "ports": "ports list(string)",
		"port_mappings": "port_mappings list(map(string))", "default_route": "default_route list(string)", "cni_args": "cni_args list(map(string))",
		"infiniband_guid": "infiniband_guid string", "advertise": "advertise bool", "bandwidth.ingress_rate": "ingress_rate number",
		"bandwidth.ingress_burst": "ingress_burst number", "bandwidth.egress_rate": "egress_rate number", "bandwidth.egress_burst": "egress_burst number",
	}
	if !maps.Equal(kinds, want) {
		t.Errorf("keys %v, want %v", kinds, want)
	}
	answer, err := drivertest.Capabilities(t.Context(), c, &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	capabilities := answer.Capabilities
	if !slices.Equal(capabilities.NetworkIsolationModes, []proto.NetworkIsolationSpec_NetworkIsolationMode{proto.NetworkIsolationSpec_GROUP}) ||
		capabilities.MountConfigs != proto.DriverCapabilities_NO_MOUNTS || !capabilities.DisableLogCollection {
		t.Errorf("capabilities %v", capabilities)
	}
}

// TestStopIsNotInterrupted: a client that disconnects while a task is detached leaves no half of it.
func TestStopIsNotInterrupted(t *testing.T) {
	e := &engineFake{attached: []hook.Attachment{{Network: "storage", Interface: "lo", Task: "net"}}}
	d := newTestDriver(e)
	c := taskOf(t, nil)
	running := newTask(c, &hook.Allocation{ID: c.GetAllocId(), Netns: own, Attachments: e.attached}, driverState{})
	running.stopWatch = func() {}
	d.tasks.add(running)
	gone, disconnect := context.WithCancel(t.Context())
	disconnect()
	if _, err := d.stopTask(gone, &proto.StopTaskRequest{TaskId: c.Id}); err != nil || len(e.attached) > 0 {
		t.Errorf("%v, left: %+v", err, e.attached)
	}
}

// TestStartReleases: what a killed process has left of a task goes before it is attached.
func TestStartReleases(t *testing.T) {
	e := &engineFake{attached: []hook.Attachment{{Network: "storage", Interface: "lo", Task: "net"}}, extendErr: errors.New("no address is free")}
	if _, err := newTestDriver(e).startTask(t.Context(), &proto.StartTaskRequest{Task: taskOf(t, map[string]network{"storage": {}})}); err == nil || len(e.attached) > 0 {
		t.Errorf("%v, left: %+v", err, e.attached)
	}
}

// TestRootLife calls every method for one task, from start to destroy.
func TestRootLife(t *testing.T) {
	roottest.Require(t)
	e := &engineFake{interfaces: map[string]string{"storage": "lo"}}
	c := serve(t, newTestDriver(e))
	ctx := t.Context()
	task := taskOf(t, map[string]network{"storage": {"ips": []string{"10.1.0.9/24"}, "ports": []string{"repl"}, "mtu": 1400}})
	started, err := drivertest.StartTask(ctx, c, &proto.StartTaskRequest{Task: task})
	if err != nil {
		t.Fatal(err)
	}
	if h := started.Handle; h.Config.Id != task.Id || h.State != proto.TaskState_RUNNING || len(h.DriverState) == 0 {
		t.Errorf("handle %v", h)
	}
	if n := started.NetworkOverride; n.Addr != "10.1.0.9" || !n.AutoAdvertise {
		t.Errorf("network override %v", n)
	}
	r := e.requests[0]
	if r.ID != "a1" || r.Task != "net" || r.Netns != own || r.Identity.Namespace != "prod" || r.Identity.Job != "db" || r.Identity.Group != "g" ||
		r.Networks[0].MTU != 1400 || r.Networks[0].IPs[0] != "10.1.0.9/24" || r.Networks[0].DefaultRoute != nil ||
		len(r.Ports) != 1 || r.Ports[0].To != 5433 || r.Ports[0].HostIP != "192.0.2.1" || e.released[0] != "net" {
		t.Errorf("asked for %+v after releasing %v", r, e.released)
	}
	if _, err := drivertest.StartTask(ctx, c, &proto.StartTaskRequest{Task: task}); status.Code(err) != codes.AlreadyExists {
		t.Errorf("a second start: %v", err)
	}
	inspected, err := drivertest.InspectTask(ctx, c, &proto.InspectTaskRequest{TaskId: task.Id})
	if err != nil || inspected.Task.State != proto.TaskState_RUNNING || inspected.Driver.Attributes["lo.network"] != "storage" || inspected.Driver.Attributes["lo.rx_bytes"] == "" {
		t.Errorf("inspected %v, %v", inspected, err)
	}
	stats, err := drivertest.TaskStats(ctx, c, &proto.TaskStatsRequest{TaskId: task.Id, CollectionInterval: durationpb.New(time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if s, err := stats.Recv(); err != nil || s.Stats.AggResourceUsage.Memory == nil {
			t.Errorf("stats %v, %v", s, err)
		}
	}
	if _, err := drivertest.DestroyTask(ctx, c, &proto.DestroyTaskRequest{TaskId: task.Id}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("destroying a running task: %v", err)
	}
	e.releaseErr = errors.New("the plugin died")
	if _, err := drivertest.StopTask(ctx, c, &proto.StopTaskRequest{TaskId: task.Id}); err == nil || !strings.Contains(err.Error(), "the plugin died") {
		t.Errorf("a stop that fails: %v", err)
	}
	if i, err := drivertest.InspectTask(ctx, c, &proto.InspectTaskRequest{TaskId: task.Id}); err != nil || i.Task.State != proto.TaskState_RUNNING {
		t.Errorf("after a stop that failed: %v, %v", i, err)
	}
	e.releaseErr = nil
	if _, err := drivertest.StopTask(ctx, c, &proto.StopTaskRequest{TaskId: task.Id}); err != nil {
		t.Error(err)
	}
	if w, err := drivertest.WaitTask(ctx, c, &proto.WaitTaskRequest{TaskId: task.Id}); err != nil || w.Result.ExitCode != 0 || w.Err != "" {
		t.Errorf("waited for %v, %v", w, err)
	}
	for range 2 {
		if _, err := drivertest.DestroyTask(ctx, c, &proto.DestroyTaskRequest{TaskId: task.Id}); err != nil {
			t.Error(err)
		}
	}
	if _, err := drivertest.WaitTask(ctx, c, &proto.WaitTaskRequest{TaskId: task.Id}); status.Code(err) != codes.NotFound {
		t.Errorf("waiting for a destroyed task: %v", err)
	}
	if len(e.attached) != 0 {
		t.Errorf("left: %+v", e.attached)
	}
	requireEvents(t, c, "Attached storage as lo 10.1.0.9/24", "Detaching failed: the plugin died", "Detached storage from lo, ")
}

// requireEvents reads one event for each prefix.
func requireEvents(t *testing.T, c *grpc.ClientConn, beginnings ...string) {
	t.Helper()
	stream, err := drivertest.TaskEvents(t.Context(), c, &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range beginnings {
		event, err := stream.Recv()
		if err != nil || !strings.HasPrefix(event.Message, want) || event.AllocId != "a1" || event.TaskName != "net" {
			t.Errorf("event %v, %v, want %q", event, err, want)
		}
	}
}

func TestStartRefused(t *testing.T) {
	failed := &hook.Error{Op: "attach", Network: "storage", Interface: "net1", Allocation: "a1", Attempts: 3, Err: errors.New("no lease\xff")}
	plain := map[string]network{"storage": {}}
	for name, test := range map[string]struct {
		networks map[string]network
		edit     func(*proto.TaskConfig)
		err      error
		code     codes.Code
		words    string
	}{
		"no namespace":      {plain, func(c *proto.TaskConfig) { c.NetworkIsolationSpec = nil }, nil, codes.InvalidArgument, `set network { mode = "bridge" }`},
		"host mode":         {plain, func(c *proto.TaskConfig) { c.NetworkIsolationSpec.Mode = proto.NetworkIsolationSpec_HOST }, nil, codes.InvalidArgument, "no network namespace of its own"},
		"no network":        {nil, nil, nil, codes.InvalidArgument, `add a block network "NAME" {}`},
		"two advertised":    {map[string]network{"a": {"advertise": true}, "b": {"advertise": true}}, nil, nil, codes.InvalidArgument, "networks a, b have advertise = true"},
		"unknown port":      {map[string]network{"a": {"ports": []string{"http"}}}, nil, nil, codes.InvalidArgument, `"http" is not a port of the group: want one of repl`},
		"no ports":          {map[string]network{"a": {"ports": []string{"http"}}}, func(c *proto.TaskConfig) { c.Resources = nil }, nil, codes.InvalidArgument, `"http" is not a port of the group: the group has none`},
		"no config":         {plain, func(c *proto.TaskConfig) { c.MsgpackDriverConfig = []byte("\xc1") }, nil, codes.InvalidArgument, "config: "},
		"namespace missing": {plain, func(c *proto.TaskConfig) { c.NetworkIsolationSpec.Path = "/nonexistent" }, nil, codes.InvalidArgument, "the path does not exist"},
		"refused":           {plain, nil, &hook.RequestError{Field: "netns", Value: "x", Reason: "other"}, codes.InvalidArgument, "other"},
		"plugin failed":     {plain, nil, failed, codes.FailedPrecondition, "(3 attempts): no lease?"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &engineFake{interfaces: map[string]string{"storage": "lo"}, extendErr: test.err}
			c := serve(t, newTestDriver(e))
			task := taskOf(t, test.networks)
			if test.edit != nil {
				test.edit(task)
			}
			_, err := drivertest.StartTask(t.Context(), c, &proto.StartTaskRequest{Task: task})
			s := status.Convert(err)
			if s.Code() != test.code || !strings.Contains(s.Message(), test.words) {
				t.Errorf("%v, want %s: %q", err, test.code, test.words)
			}
			recoverable := false
			for _, detail := range s.Details() {
				if r, ok := detail.(*proto.RecoverableError); ok {
					recoverable = r.Recoverable
				}
			}
			if recoverable != (test.code == codes.FailedPrecondition) {
				t.Errorf("recoverable is %t", recoverable)
			}
			notAttached := "Not attached: " + s.Message()
			if test.err != nil { // of a call of the engine
				requireEvents(t, c, "Attaching storage as  failed, attempt 1 of 3: ", notAttached)
			} else {
				requireEvents(t, c, notAttached)
			}
		})
	}
}

// TestIdentity: whose an allocation is comes from Nomad's fields, and nothing of the task's text
// changes it.
func TestIdentity(t *testing.T) {
	for index, want := range map[string]map[string]string{
		"": nil, "2": {"NOMAD_ALLOC_INDEX": "2"}, "-1": nil, "2;NOMAD_JOB_ID=other": nil,
	} {
		task := taskOf(t, map[string]network{"storage": {"cni_args": []map[string]string{{"NOMAD_JOB_ID": "other"}}}})
		task.Env = map[string]string{"NOMAD_ALLOC_INDEX": index, "NOMAD_ALLOC_ID": "a2", "NOMAD_JOB_ID": "other", "NOMAD_NAMESPACE": "other", "NOMAD_GROUP_NAME": "other", "NOMAD_REGION": "other", "NOMAD_META_ALLOCNET_INGRESS": "80/tcp"}
		var config taskConfig
		if err := decode(task.GetMsgpackDriverConfig(), &config); err != nil {
			t.Fatal(err)
		}
		r, err := requestOf(task, config)
		if err != nil {
			t.Fatal(err)
		}
		if known := (policy.Identity{Namespace: "prod", Job: "db", Group: "g"}); r.ID != "a1" || r.Identity != known || !maps.Equal(r.Args, want) || r.Narrowing != (selection.Narrowing{Ingress: "80/tcp"}) {
			t.Errorf("index %q: allocation %s, identity %+v, args %v, want a1, %+v, %v", index, r.ID, r.Identity, r.Args, known, want)
		}
	}
}

// TestNothingLeft: an empty meta, which would narrow nothing, is refused as it is where the agent reads it.
func TestNothingLeft(t *testing.T) {
	for _, key := range []string{"ingress", "egress"} {
		task := taskOf(t, map[string]network{"storage": {}})
		task.Env = map[string]string{"NOMAD_META_ALLOCNET_" + strings.ToUpper(key): ""}
		var config taskConfig
		if err := decode(task.GetMsgpackDriverConfig(), &config); err != nil {
			t.Fatal(err)
		}
		if r, err := requestOf(task, config); err == nil || !strings.HasPrefix(err.Error(), "meta allocnet."+key+": is empty: want") {
			t.Errorf("%s: %+v, %v", key, r.Narrowing, err)
		}
	}
}

// TestRootInterfaceGone: the task fails with the reason.
func TestRootInterfaceGone(t *testing.T) {
	roottest.Require(t)
	e := &engineFake{interfaces: map[string]string{"storage": "vanished"}}
	c := serve(t, newTestDriver(e))
	task := taskOf(t, map[string]network{"storage": {}})
	if _, err := drivertest.StartTask(t.Context(), c, &proto.StartTaskRequest{Task: task}); err != nil {
		t.Fatal(err)
	}
	w, err := drivertest.WaitTask(t.Context(), c, &proto.WaitTaskRequest{TaskId: task.Id})
	if err != nil || w.Result.ExitCode != 1 || w.Err != "interface vanished of network storage is gone" {
		t.Errorf("waited for %v, %v", w, err)
	}
	if _, err := drivertest.DestroyTask(t.Context(), c, &proto.DestroyTaskRequest{TaskId: task.Id, Force: true}); err != nil || len(e.attached) != 0 {
		t.Errorf("destroyed: %v, left %v", err, e.attached)
	}
}

// TestRootRecover gives a task to a driver that has never seen it.
func TestRootRecover(t *testing.T) {
	roottest.Require(t)
	start := func(t *testing.T, iface string) (*engineFake, *proto.TaskHandle) {
		e := &engineFake{interfaces: map[string]string{"storage": iface}}
		d := newTestDriver(e)
		d.interval = time.Hour
		started, err := drivertest.StartTask(t.Context(), serve(t, d), &proto.StartTaskRequest{Task: taskOf(t, map[string]network{"storage": {"advertise": true}})})
		if err != nil {
			t.Fatal(err)
		}
		// Nomad does not keep it.
		started.Handle.Config.MsgpackDriverConfig = nil
		return e, started.Handle
	}
	t.Run("as it was", func(t *testing.T) {
		e, handle := start(t, "lo")
		c := serve(t, newTestDriver(e))
		for range 2 {
			if _, err := drivertest.RecoverTask(t.Context(), c, &proto.RecoverTaskRequest{TaskId: handle.Config.Id, Handle: handle}); err != nil {
				t.Fatal(err)
			}
		}
		i, err := drivertest.InspectTask(t.Context(), c, &proto.InspectTaskRequest{TaskId: handle.Config.Id})
		if err != nil || i.Task.State != proto.TaskState_RUNNING || i.NetworkOverride.Addr != "10.1.0.9" {
			t.Errorf("inspected %v, %v", i, err)
		}
	})
	for name, test := range map[string]struct {
		iface string
		spoil func(*engineFake, *proto.TaskHandle)
		words string
	}{
		"interface gone":       {"vanished", func(*engineFake, *proto.TaskHandle) {}, "interface vanished of network storage is gone"},
		"nothing on record":    {"lo", func(e *engineFake, _ *proto.TaskHandle) { e.attached = nil }, "not set up"},
		"another's on record":  {"lo", func(e *engineFake, _ *proto.TaskHandle) { e.attached[0].Task = "other" }, "interface lo is not on record"},
		"half detached":        {"lo", func(e *engineFake, _ *proto.TaskHandle) { e.attached[0].Phase = state.Deleting }, `phase "deleting"`},
		"a newer handle":       {"lo", func(_ *engineFake, h *proto.TaskHandle) { h.Version = 9 }, "version 9"},
		"a damaged handle":     {"lo", func(_ *engineFake, h *proto.TaskHandle) { h.DriverState = []byte("{") }, "handle"},
		"namespace gone":       {"lo", func(_ *engineFake, h *proto.TaskHandle) { h.Config.NetworkIsolationSpec.Path = "/nonexistent" }, "the path does not exist"},
		"another namespace is": {"lo", func(_ *engineFake, h *proto.TaskHandle) { h.DriverState = []byte(`{"netnsID": "x"}`) }, "has another namespace now"},
	} {
		t.Run(name, func(t *testing.T) {
			e, handle := start(t, test.iface)
			test.spoil(e, handle)
			c := serve(t, newTestDriver(e))
			if _, err := drivertest.RecoverTask(t.Context(), c, &proto.RecoverTaskRequest{TaskId: handle.Config.Id, Handle: handle}); err == nil || !strings.Contains(err.Error(), test.words) {
				t.Errorf("%v, want %q", err, test.words)
			}
			before := len(e.released)
			if _, err := drivertest.DestroyTask(t.Context(), c, &proto.DestroyTaskRequest{TaskId: handle.Config.Id, Force: true}); err != nil || len(e.released) != before+1 {
				t.Errorf("what is left was not released: %v, %v", err, e.released)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	c := serve(t, newTestDriver(&engineFake{}))
	stream, err := drivertest.ExecTaskStreaming(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	_, signal := drivertest.SignalTask(t.Context(), c, &emptypb.Empty{})
	_, exec := drivertest.ExecTask(t.Context(), c, &emptypb.Empty{})
	if err := stream.SendMsg(&emptypb.Empty{}); err != nil { // Nomad gives up then
		t.Errorf("the stream has ended before its first message: %v", err)
	}
	streaming := stream.RecvMsg(&emptypb.Empty{})
	for _, err := range []error{signal, exec, streaming} {
		if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "an attachment has no process") || len(err.Error()) > 123 {
			t.Errorf("got %v, of %d bytes", err, len(err.Error()))
		}
	}
}

// TestEventsDoNotWait: without a reader, the newest events are kept.
func TestEventsDoNotWait(t *testing.T) {
	e := newEvents(hclog.NewNullLogger())
	for i := range 3 * backlog {
		e.add(&proto.DriverTaskEvent{Message: fmt.Sprint(i)})
	}
	var got []string
	full := errors.New("enough")
	err := e.stream(t.Context(), func(event *proto.DriverTaskEvent) error {
		got = append(got, event.Message)
		if len(got) == backlog {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) || got[0] != fmt.Sprint(2*backlog) || got[backlog-1] != fmt.Sprint(3*backlog-1) {
		t.Errorf("got %s to %s, %v", got[0], got[len(got)-1], err)
	}
	if last := <-e.queue; last.Message != got[backlog-1] {
		t.Errorf("the event that was not sent is lost, kept is %q", last.Message)
	}
}

// TestPublish: the files follow no link that a task has put there.
func TestPublish(t *testing.T) {
	e := &engineFake{attached: []hook.Attachment{
		{Network: "storage", Interface: "net1", Task: "net", Observed: hook.Observed{Addresses: []netip.Prefix{netip.MustParsePrefix("10.1.0.9/24"), netip.MustParsePrefix("fd00::9/64")}, MAC: "02::", MTU: 1400}},
		{Network: "storage", Interface: "net2", Task: "net"}, {Network: "a.b-c", Interface: "net3", Task: "other"},
	}}
	d := newTestDriver(e)
	c := &proto.TaskConfig{AllocId: "a1", AllocDir: t.TempDir()}
	shared, victim := filepath.Join(c.AllocDir, "alloc"), filepath.Join(t.TempDir(), "victim")
	if err := d.publishNow(&task{config: c}); err != nil {
		t.Errorf("without a shared directory: %v", err)
	}
	if err := errors.Join(os.Mkdir(shared, 0o777), os.WriteFile(victim, []byte("precious"), 0o600),
		os.Symlink(victim, filepath.Join(shared, networkstatus.EnvFile)), os.Symlink(victim, filepath.Join(shared, "."+networkstatus.EnvFile+".new"))); err != nil {
		t.Fatal(err)
	}
	if err := d.publishNow(&task{config: c}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(victim); err != nil || string(data) != "precious" {
		t.Errorf("a link was followed: %q, %v", data, err)
	}
	const want = "ALLOCNET_INTERFACE_storage=net1\nALLOCNET_MAC_storage=02::\nALLOCNET_MTU_storage=1400\nALLOCNET_IP_storage=10.1.0.9\nALLOCNET_CIDRS_storage=10.1.0.9/24,fd00::9/64\n" +
		"ALLOCNET_INTERFACE_a_b_c=net3\nALLOCNET_MAC_a_b_c=\nALLOCNET_MTU_a_b_c=0\n"
	if data, err := os.ReadFile(filepath.Join(shared, networkstatus.EnvFile)); err != nil || string(data) != want {
		t.Errorf("variables:\n%s%v", data, err)
	}
	e.attached = nil
	if err := d.publishNow(&task{config: c}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(shared, networkstatus.File)); err != nil || strings.TrimSpace(string(data)) != "[]" {
		t.Errorf("with nothing attached: %q, %v", data, err)
	}
}

func (e *engineFake) RetryDue() bool { return false }

func (e *engineFake) RetryPending(context.Context) error { return nil }

// TestConfigError: an error of the selection has its position in the task's config.
func TestConfigError(t *testing.T) {
	names := []string{"backup", "storage"}
	for position, want := range map[string]string{
		"networks[1].ips[0]":          `config: network "storage": ips[0]: "x": bad`,
		"networks[0].default-route":   `config: network "backup": default_route: "x": bad`,
		"networks[7].infiniband-guid": `config: networks[7].infiniband_guid: "x": bad`,
	} {
		if got := configError(fmt.Errorf("wrapped: %w", &selection.Error{Position: position, Value: "x", Reason: "bad"}), names); got.Error() != want {
			t.Errorf("%s: %v, want %s", position, got, want)
		}
	}
	other := errors.New("other")
	if got := configError(other, names); !errors.Is(got, other) || got.Error() != "other" {
		t.Errorf("another error: %v", got)
	}
}
