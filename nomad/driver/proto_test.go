// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/allocnet/allocnet/internal/roottest"
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
	task.ProtoReflect().SetUnknown(further)
	task.Resources.ProtoReflect().SetUnknown(further)
	started, err := c.driver.StartTask(t.Context(), &proto.StartTaskRequest{Task: task})
	if err != nil {
		t.Fatal(err)
	}
	if r := e.requests[0]; r.ID != "a1" || r.Task != "net" || r.Netns != own || r.Networks[0].Name != "storage" || r.Identity.Job != "db" {
		t.Errorf("asked for %+v", r)
	}
	config := started.GetHandle().GetConfig()
	if !bytes.Equal(config.ProtoReflect().GetUnknown(), further) || !bytes.Equal(config.GetResources().ProtoReflect().GetUnknown(), further) {
		t.Errorf("the handle lacks fields that Nomad sent: %v", config)
	}
}

// TestUnknownMethod: Nomad calls methods that are not defined here.
func TestUnknownMethod(t *testing.T) {
	c := serve(t, newTestDriver(&engineFake{}))
	for _, method := range []string{"CreateNetwork", "DestroyNetwork"} {
		err := c.conn.Invoke(t.Context(), "/hashicorp.nomad.plugins.drivers.proto.Driver/"+method, &proto.TaskEventsRequest{}, &proto.StopTaskResponse{})
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v, want code Unimplemented", method, err)
		}
	}
}
