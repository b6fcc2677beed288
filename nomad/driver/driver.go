// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/drivers/proto"
	structs "github.com/hashicorp/nomad/plugins/shared/structs/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/keylock"
	"github.com/allocnet/allocnet/selection"
)

// engine is what the driver needs of hook.Engine.
type engine interface {
	Extend(ctx context.Context, r hook.Request) (*hook.Allocation, error)
	Release(ctx context.Context, id, task string) error
	Status(ctx context.Context, id string) (*hook.Allocation, error)
	RetryDue() bool
	RetryPending(ctx context.Context) error
}

// Driver is the gRPC service of the driver. Its methods may be called
// concurrently.
type Driver struct {
	proto.UnimplementedDriverServer
	log    hclog.Logger
	base   hook.Config
	events *events
	// published serialises the writing of an allocation's files.
	published keylock.Locks
	// interval is between two looks at a task's interfaces.
	interval time.Duration

	mu     sync.Mutex // guards all below
	config hook.Config
	engine engine
	broken error // why there is no engine
	tasks  map[string]*task
}

// New returns a driver that has no engine before Nomad has configured it.
func New(c hook.Config, log hclog.Logger) *Driver {
	return &Driver{
		log: log, base: c, events: newEvents(), interval: 3 * time.Second,
		broken: errors.New("the agent has not configured the plugin"),
		tasks:  map[string]*task{},
	}
}

// configure opens the engine that the agent's plugin block describes.
func (d *Driver) configure(data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var p pluginConfig
	if d.broken = decode(data, &p); d.broken != nil {
		d.broken = fmt.Errorf("the agent's plugin block: %w", d.broken)
		return
	}
	d.config = p.over(d.base)
	d.config.Logger = d.log
	opened, err := hook.NewEngine(d.config)
	d.engine, d.broken = opened, err
}

// retryLater tries again, while Nomad does not wait, what earlier teardowns left.
func (d *Driver) retryLater(e engine) {
	go func() {
		if !e.RetryDue() {
			return
		}
		if err := e.RetryPending(context.Background()); err != nil {
			d.log.Warn("pending teardowns were not tried again", "error", err)
		}
	}()
}

// ready returns the engine, or why there is none.
func (d *Driver) ready() (engine, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.engine, d.broken
}

// TaskConfigSchema returns the schema of a task's config block.
func (*Driver) TaskConfigSchema(context.Context, *proto.TaskConfigSchemaRequest) (*proto.TaskConfigSchemaResponse, error) {
	return &proto.TaskConfigSchemaResponse{Spec: taskSchema}, nil
}

// Capabilities says what a task of this driver is: it joins the namespace of
// its group, and has no process, image or output of its own.
func (*Driver) Capabilities(context.Context, *proto.CapabilitiesRequest) (*proto.CapabilitiesResponse, error) {
	return &proto.CapabilitiesResponse{Capabilities: &proto.DriverCapabilities{
		FsIsolation:           proto.DriverCapabilities_NONE,
		NetworkIsolationModes: []proto.NetworkIsolationSpec_NetworkIsolationMode{proto.NetworkIsolationSpec_GROUP},
		MountConfigs:          proto.DriverCapabilities_NO_MOUNTS,
		DisableLogCollection:  true,
	}}, nil
}

// StartTask attaches. When it fails, nothing is attached.
func (d *Driver) StartTask(ctx context.Context, r *proto.StartTaskRequest) (*proto.StartTaskResponse, error) {
	c := r.GetTask()
	if _, err := d.task(c.GetId()); err == nil {
		return nil, status.Errorf(codes.AlreadyExists, "task %s is started already", c.GetId())
	}
	t, err := d.start(ctx, c)
	if err != nil {
		d.log.Warn("task not started", "allocation", c.GetAllocId(), "task", c.GetName(), "error", err)
		return nil, startFailure(err)
	}
	handle, err := t.handle()
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &proto.StartTaskResponse{Result: proto.StartTaskResponse_SUCCESS, Handle: handle, NetworkOverride: t.override}, nil
}

// startFailure makes an error the gRPC status that Nomad acts upon: what plugins
// failed at may succeed when the task is restarted; what was refused will not.
func startFailure(err error) error {
	var failed *hook.Error
	if !errors.As(err, &failed) {
		return status.Error(codes.InvalidArgument, clean(err.Error()))
	}
	s, detailed := status.New(codes.FailedPrecondition, clean(err.Error())).WithDetails(&structs.RecoverableError{Recoverable: true})
	if detailed != nil {
		return status.Error(codes.Internal, errors.Join(err, detailed).Error())
	}
	return s.Err()
}

// RecoverTask takes over a task that an earlier process of the driver, or of
// Nomad, left. The error is that it is not attached as it was; then DestroyTask
// removes what is left of it.
func (d *Driver) RecoverTask(ctx context.Context, r *proto.RecoverTaskRequest) (*proto.RecoverTaskResponse, error) {
	if _, err := d.task(r.GetTaskId()); err == nil {
		return &proto.RecoverTaskResponse{}, nil
	}
	if err := d.recover(ctx, r.GetHandle()); err != nil {
		d.log.Warn("task not recovered", "task", r.GetTaskId(), "error", err)
		return nil, status.Error(codes.NotFound, clean(err.Error()))
	}
	return &proto.RecoverTaskResponse{}, nil
}

// WaitTask returns when the task has ended.
func (d *Driver) WaitTask(ctx context.Context, r *proto.WaitTaskRequest) (*proto.WaitTaskResponse, error) {
	t, err := d.task(r.GetTaskId())
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

// StopTask detaches. What could not be detached keeps the task running, so that
// Nomad calls again.
func (d *Driver) StopTask(ctx context.Context, r *proto.StopTaskRequest) (*proto.StopTaskResponse, error) {
	t, err := d.task(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	if err := d.stop(ctx, t); err != nil {
		return nil, status.Error(codes.Internal, clean(err.Error()))
	}
	return &proto.StopTaskResponse{}, nil
}

// DestroyTask forgets a task, and detaches what is left of it. One that is not
// known is fine.
func (d *Driver) DestroyTask(ctx context.Context, r *proto.DestroyTaskRequest) (*proto.DestroyTaskResponse, error) {
	t, err := d.task(r.GetTaskId())
	if err != nil {
		return &proto.DestroyTaskResponse{}, nil
	}
	if t.running() && !r.GetForce() {
		return nil, status.Errorf(codes.FailedPrecondition, "task %s is running: stop it first", r.GetTaskId())
	}
	if err := d.stop(ctx, t); err != nil {
		return nil, status.Error(codes.Internal, clean(err.Error()))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tasks, r.GetTaskId())
	return &proto.DestroyTaskResponse{}, nil
}

// InspectTask describes a task, with the traffic of its interfaces.
func (d *Driver) InspectTask(_ context.Context, r *proto.InspectTaskRequest) (*proto.InspectTaskResponse, error) {
	t, err := d.task(r.GetTaskId())
	if err != nil {
		return nil, err
	}
	return &proto.InspectTaskResponse{
		Task:            t.status(),
		Driver:          &proto.TaskDriverStatus{Attributes: t.attributes()},
		NetworkOverride: t.override,
	}, nil
}

// SignalTask refuses.
func (*Driver) SignalTask(context.Context, *proto.SignalTaskRequest) (*proto.SignalTaskResponse, error) {
	return nil, status.Error(codes.Unimplemented, "an attachment has no process to signal: signal a main task")
}

// ExecTask refuses.
func (*Driver) ExecTask(context.Context, *proto.ExecTaskRequest) (*proto.ExecTaskResponse, error) {
	return nil, noExec
}

// ExecTaskStreaming refuses.
func (*Driver) ExecTaskStreaming(proto.Driver_ExecTaskStreamingServer) error { return noExec }

var noExec = status.Error(codes.Unimplemented, "an attachment has no process to execute in: use a main task, which has the same network namespace")

// TaskEvents streams what happens to tasks.
func (d *Driver) TaskEvents(_ *proto.TaskEventsRequest, stream proto.Driver_TaskEventsServer) error {
	return d.events.stream(stream.Context(), stream.Send)
}

// task returns a task that is known.
func (d *Driver) task(id string) (*task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t, ok := d.tasks[id]; ok {
		return t, nil
	}
	return nil, status.Errorf(codes.NotFound, "task not found for given id: %s", id)
}

// keep makes a task known.
func (d *Driver) keep(t *task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tasks[t.config.GetId()] = t
}

// clean drops what gRPC cannot carry from a text that plugins wrote.
func clean(text string) string { return strings.ToValidUTF8(text, "?") }

// inWords puts an error in terms of the task's config.
func inWords(err error, names []string) error {
	var bad *selection.Error
	if !errors.As(err, &bad) {
		return err
	}
	where := strings.ReplaceAll(bad.Position, "-", "_") // as the keys are called in HCL
	for i, name := range names {
		if rest, found := strings.CutPrefix(where, fmt.Sprintf("networks[%d]", i)); found {
			where = fmt.Sprintf("network %q%s", name, strings.Replace(rest, ".", ": ", 1))
			break
		}
	}
	return &selection.Error{Position: "config: " + where, Value: bad.Value, Reason: bad.Reason}
}
