// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/nomad/driver/drivertest"
	"github.com/allocnet/allocnet/nomad/driver/proto"
)

// TestRootFurtherFields: what the definitions lack of a message is skipped, and goes back to
// Nomad in the handle.
func TestRootFurtherFields(t *testing.T) {
	roottest.Require(t)
	e := &engineFake{interfaces: map[string]string{"storage": "lo"}}
	c := serve(t, newTestDriver(e))
	task := taskOf(t, map[string]network{"storage": {}})
	var further []byte
	further = protowire.AppendString(protowire.AppendTag(further, 14, protowire.BytesType), "job") // job_name
	further = protowire.AppendVarint(protowire.AppendTag(further, 1000, protowire.VarintType), 7)  // of a later version
	task.XXX_unrecognized, task.Resources.XXX_unrecognized = further, further
	task.Resources.Ports[0].XXX_unrecognized, task.NetworkIsolationSpec.XXX_unrecognized = further, further
	started, err := drivertest.StartTask(t.Context(), c, &proto.StartTaskRequest{Task: task})
	if err != nil {
		t.Fatal(err)
	}
	if r := e.requests[0]; r.ID != "a1" || r.Task != "net" || r.Netns != own || r.Networks[0].Name != "storage" || r.Identity.Job != "db" {
		t.Errorf("asked for %+v", r)
	}
	config := started.Handle.Config
	for _, further := range [][]byte{config.XXX_unrecognized, config.Resources.XXX_unrecognized, config.Resources.Ports[0].XXX_unrecognized, config.NetworkIsolationSpec.XXX_unrecognized} {
		if !bytes.Equal(further, task.XXX_unrecognized) {
			t.Errorf("the handle lacks fields that Nomad sent: %+v", config)
		}
	}
}

// TestServices: what is served is what a test of e2e/driver compares with Nomad's agent.
func TestServices(t *testing.T) {
	var served, tested []string
	for _, service := range []grpc.ServiceDesc{baseService, driverService} {
		for _, m := range service.Methods {
			served = append(served, fmt.Sprintf("/%s/%s false false", service.ServiceName, m.MethodName))
		}
		for _, s := range service.Streams {
			served = append(served, fmt.Sprintf("/%s/%s %t %t", service.ServiceName, s.StreamName, s.ClientStreams, s.ServerStreams))
		}
	}
	for _, m := range drivertest.Methods {
		tested = append(tested, fmt.Sprintf("%s %t %t", m.Path, m.ClientStreams, m.ServerStreams))
	}
	slices.Sort(served)
	slices.Sort(tested)
	if !slices.Equal(served, tested) {
		t.Errorf("served are %q, want %q", served, tested)
	}
}

// TestUnknownMethod: Nomad calls methods that are not defined here.
func TestUnknownMethod(t *testing.T) {
	c := serve(t, newTestDriver(&engineFake{}))
	for _, method := range []string{"CreateNetwork", "DestroyNetwork"} {
		err := c.Invoke(t.Context(), "/hashicorp.nomad.plugins.drivers.proto.Driver/"+method, &emptypb.Empty{}, &emptypb.Empty{})
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v, want code Unimplemented", method, err)
		}
	}
}

// TestMissingMessages: a call that lacks a message is refused, and so is what follows it.
func TestMissingMessages(t *testing.T) {
	c := serve(t, newTestDriver(&engineFake{}))
	if _, err := drivertest.StartTask(t.Context(), c, &proto.StartTaskRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without a task: %v", err)
	}
	config := &proto.TaskConfig{Id: "t1", AllocId: "a1"}
	for _, handle := range []*proto.TaskHandle{nil, {}, {Version: handleVersion, DriverState: []byte("{}")}, {Version: handleVersion, DriverState: []byte("{}"), Config: config}} {
		if _, err := drivertest.RecoverTask(t.Context(), c, &proto.RecoverTaskRequest{TaskId: "t1", Handle: handle}); status.Code(err) != codes.NotFound {
			t.Errorf("handle %+v: %v", handle, err)
		}
	}
	if _, err := drivertest.DestroyTask(t.Context(), c, &proto.DestroyTaskRequest{TaskId: "t1", Force: true}); err != nil {
		t.Errorf("the task that was lost stays: %v", err)
	}
}
