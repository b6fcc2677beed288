// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/nomad/driver/proto"
	"github.com/allocnet/allocnet/selection"
)

// driver implements the gRPC services of a task driver; see service.go. Its methods may be
// called concurrently.
type driver struct {
	log      hclog.Logger
	settings *settings
	tasks    *tasks
	events   *events
	// published serialises writes of an allocation's files.
	published files.KeyLocks
	// interval is the time between two checks of a task's interfaces.
	interval time.Duration
}

// newDriver returns a driver without an engine. Nomad configures it later.
func newDriver(c hook.Config, log hclog.Logger) *driver {
	return &driver{log: log, settings: newSettings(c, log), tasks: newTasks(), events: newEvents(log), interval: 3 * time.Second}
}

// taskConfigSchema returns the schema of a task's config block.
func (*driver) taskConfigSchema(context.Context, *emptypb.Empty) (*proto.TaskConfigSchemaResponse, error) {
	return &proto.TaskConfigSchemaResponse{Spec: schemaOf(reflect.TypeFor[taskConfig]())}, nil
}

// capabilities returns the capabilities of the driver. A task joins the network
// namespace of its group, and has no process, image or log.
func (*driver) capabilities(context.Context, *emptypb.Empty) (*proto.CapabilitiesResponse, error) {
	return &proto.CapabilitiesResponse{Capabilities: &proto.DriverCapabilities{
		NetworkIsolationModes: []proto.NetworkIsolationSpec_NetworkIsolationMode{proto.NetworkIsolationSpec_GROUP},
		MountConfigs:          proto.DriverCapabilities_NO_MOUNTS,
		DisableLogCollection:  true,
	}}, nil
}

// startTask attaches the networks of a task: all of them, or none.
func (d *driver) startTask(ctx context.Context, r *proto.StartTaskRequest) (*proto.StartTaskResponse, error) {
	c := r.GetTask()
	if _, err := d.tasks.find(c.GetId()); err == nil {
		return nil, status.Errorf(codes.AlreadyExists, "task %s is already started", c.GetId())
	}
	t, err := d.start(ctx, c)
	if err != nil {
		// Nomad writes "rpc error: code = ..." before the error of an external driver.
		d.events.emit(c, nil, "Not attached: %v", err)
		return nil, startFailure(err)
	}
	handle, err := t.handle()
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &proto.StartTaskResponse{Handle: handle, NetworkOverride: t.override}, nil
}

// startFailure returns the gRPC status of an error. A failure of a plugin is
// recoverable: Nomad restarts the task. A refused request is not.
func startFailure(err error) error {
	var failed *hook.Error
	if !errors.As(err, &failed) {
		return status.Error(codes.InvalidArgument, validUTF8(err.Error()))
	}
	s, detailed := status.New(codes.FailedPrecondition, validUTF8(err.Error())).WithDetails(&proto.RecoverableError{Recoverable: true})
	if detailed != nil {
		return status.Error(codes.Internal, errors.Join(err, detailed).Error())
	}
	return s.Err()
}

// recoverTask takes over a task after a restart of the driver or of Nomad. It fails
// if an attachment of the task is missing. DestroyTask then removes the rest.
func (d *driver) recoverTask(ctx context.Context, r *proto.RecoverTaskRequest) (*emptypb.Empty, error) {
	if _, err := d.tasks.find(r.GetTaskId()); err == nil {
		return &emptypb.Empty{}, nil
	}
	if err := d.recover(ctx, r.GetHandle()); err != nil {
		d.log.Warn("task not recovered", "task", r.GetTaskId(), "error", err)
		return nil, status.Error(codes.NotFound, validUTF8(err.Error()))
	}
	return &emptypb.Empty{}, nil
}

// waitTask returns when the task has ended.
func (d *driver) waitTask(ctx context.Context, r *proto.WaitTaskRequest) (*proto.WaitTaskResponse, error) {
	t, err := d.tasks.find(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	select {
	case <-t.ended:
		_, _, result, reason := t.state()
		return &proto.WaitTaskResponse{Result: result, Err: reason}, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// stopTask detaches the networks of a task. After a failure the task stays running,
// so that Nomad repeats the call.
func (d *driver) stopTask(ctx context.Context, r *proto.StopTaskRequest) (*emptypb.Empty, error) {
	t, err := d.tasks.find(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	if err := d.stop(ctx, t); err != nil {
		return nil, status.Error(codes.Internal, validUTF8(err.Error()))
	}
	return &emptypb.Empty{}, nil
}

// destroyTask removes a task and detaches its remaining networks. It succeeds for an
// unknown task.
func (d *driver) destroyTask(ctx context.Context, r *proto.DestroyTaskRequest) (*emptypb.Empty, error) {
	t, err := d.tasks.find(r.GetTaskId())
	if err != nil {
		return &emptypb.Empty{}, nil
	}
	if t.running() && !r.GetForce() {
		return nil, status.Errorf(codes.FailedPrecondition, "task %s is running: stop it first", r.GetTaskId())
	}
	if err := d.stop(ctx, t); err != nil {
		return nil, status.Error(codes.Internal, validUTF8(err.Error()))
	}
	d.tasks.remove(r.GetTaskId())
	return &emptypb.Empty{}, nil
}

// inspectTask returns the status of a task, with the traffic of its interfaces.
func (d *driver) inspectTask(_ context.Context, r *proto.InspectTaskRequest) (*proto.InspectTaskResponse, error) {
	t, err := d.tasks.find(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	return &proto.InspectTaskResponse{
		Task:            t.status(),
		Driver:          &proto.TaskDriverStatus{Attributes: t.attributes()},
		NetworkOverride: t.override,
	}, nil
}

// signalTask is not supported.
func (*driver) signalTask(context.Context, *emptypb.Empty) (*emptypb.Empty, error) {
	return nil, status.Error(codes.Unimplemented, "an attachment has no process to signal: signal a main task")
}

// execTask is not supported.
func (*driver) execTask(context.Context, *emptypb.Empty) (*emptypb.Empty, error) {
	return nil, noExec
}

// execTaskStreaming is not supported. It answers after the client's first message: a client whose
// message finds the stream ended sees only that, and not the reason.
func execTaskStreaming(_ any, stream grpc.ServerStream) error {
	if err := stream.RecvMsg(&emptypb.Empty{}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return noExec
}

// noExec fits into the frame that closes a websocket, of 123 bytes: `nomad alloc exec`
// prints "unexpected EOF" for a longer error.
var noExec = status.Error(codes.Unimplemented, "an attachment has no process to execute in: name a main task of its group")

// taskEvents streams the events of all tasks.
func (d *driver) taskEvents(_ *emptypb.Empty, stream grpc.ServerStreamingServer[proto.DriverTaskEvent]) error {
	return d.events.stream(stream.Context(), stream.Send)
}

// validUTF8 replaces bytes of a plugin's output that gRPC cannot carry.
func validUTF8(text string) string { return strings.ToValidUTF8(text, "?") }

// configError returns an error of the selection with its position in the task's
// config.
func configError(err error, names []string) error {
	var bad *selection.Error
	if !errors.As(err, &bad) {
		return err
	}
	where := strings.ReplaceAll(bad.Position, "-", "_") // the keys in HCL
	for i, name := range names {
		if rest, found := strings.CutPrefix(where, fmt.Sprintf("networks[%d]", i)); found {
			where = fmt.Sprintf("network %q%s", name, strings.Replace(rest, ".", ": ", 1))
			break
		}
	}
	return &selection.Error{Position: "config: " + where, Value: bad.Value, Reason: bad.Reason}
}
