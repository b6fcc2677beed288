// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/texts"
	"github.com/allocnet/allocnet/nomad/driver/proto"
	"github.com/allocnet/allocnet/policy"
)

// handleVersion is the version of driverState.
const handleVersion = 1

// task is an attachment task, from its start until it is destroyed.
type task struct {
	config   *proto.TaskConfig
	override *proto.NetworkOverride
	// attached are the attachments of the task, in the order of the record.
	attached []hook.Attachment
	saved    driverState
	// stopWatch stops the check of the interfaces.
	stopWatch context.CancelFunc
	// ended is closed when the task has ended.
	ended chan struct{}

	mu        sync.Mutex // guards all below
	completed time.Time
	result    *proto.ExitResult
	reason    string
}

// tasks are the known tasks by their IDs.
type tasks struct {
	mu   sync.Mutex // guards byID
	byID map[string]*task
}

func newTasks() *tasks { return &tasks{byID: map[string]*task{}} }

// find returns a task; the error is for gRPC.
func (s *tasks) find(id string) (*task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.byID[id]; ok {
		return t, nil
	}
	return nil, status.Errorf(codes.NotFound, "task not found for given id: %s", id)
}

func (s *tasks) add(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[t.config.GetId()] = t
}

func (s *tasks) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
}

// driverState is the driver's part of the handle that Nomad keeps for RecoverTask.
// The handle does not have the config block of the task.
type driverState struct {
	Started time.Time `json:"started"`
	// NetnsID is the identity of the namespace in which the task was started.
	NetnsID    string   `json:"netnsID"`
	Interfaces []string `json:"interfaces"`
	// Advertised is the network that has the task's address.
	Advertised string `json:"advertised"`
}

// start attaches a task and watches it.
func (d *driver) start(ctx context.Context, c *proto.TaskConfig) (*task, error) {
	engine, err := d.settings.ready()
	if err != nil {
		return nil, err
	}
	var config taskConfig
	if err := decode(c.GetMsgpackDriverConfig(), &config); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	request, err := requestOf(c, config)
	if err != nil {
		return nil, err
	}
	advertised, err := config.advertised()
	if err != nil {
		return nil, err
	}
	// A process that was killed while it started this task left attachments that
	// Nomad does not know.
	if err := engine.Release(ctx, c.GetAllocId(), c.GetName()); err != nil {
		return nil, err
	}
	request.Notify = func(s hook.Step) { d.events.emitAttempt(c, s) }
	allocation, err := engine.Extend(ctx, request)
	if err != nil {
		return nil, configError(err, config.names())
	}
	retryLater(engine, d.log)
	return d.begin(c, allocation, advertised)
}

// requestOf returns the request of the task to the engine.
func requestOf(c *proto.TaskConfig, config taskConfig) (hook.Request, error) {
	isolation := c.GetNetworkIsolationSpec()
	if isolation.GetMode() != proto.NetworkIsolationSpec_GROUP || isolation.GetPath() == "" {
		return hook.Request{}, errors.New(`the task's group has no network namespace of its own: set network { mode = "bridge" }, or another mode than "host", in the group`)
	}
	elements, err := config.elements()
	if err != nil {
		return hook.Request{}, err
	}
	ports, err := config.ports(c.GetResources().GetPorts())
	if err != nil {
		return hook.Request{}, err
	}
	left, err := narrowing(c)
	if err != nil {
		return hook.Request{}, err
	}
	return hook.Request{
		ID: c.GetAllocId(), Task: c.GetName(), Netns: isolation.GetPath(), Networks: elements, Ports: ports,
		Identity: policy.Identity{Namespace: c.GetNamespace(), Job: c.GetJobId(), Group: c.GetTaskGroupName()}, Args: indexArgs(c),
		Narrowing: left,
	}, nil
}

// narrowing is what the job leaves of its traffic by its meta, which Nomad passes in the environment only. The task's block env can replace it:
// it has the same author.
func narrowing(c *proto.TaskConfig) (n allocation.Narrowing, err error) {
	for _, meta := range []struct {
		key, name string
		text      *string
	}{{"allocnet.ingress", "NOMAD_META_ALLOCNET_INGRESS", &n.Ingress}, {"allocnet.egress", "NOMAD_META_ALLOCNET_EGRESS", &n.Egress}} {
		text, given := c.GetEnv()[meta.name]
		if given && text == "" {
			return n, fmt.Errorf("meta %s: is empty: want what is left, as in \"5432/tcp\", or none, or omit it", meta.key)
		}
		*meta.text = text
	}
	return n, nil
}

// indexArgs returns the CNI argument that has the index of the allocation in its group, which
// Nomad passes in the environment only. The task's block env can replace it, so it distinguishes
// the allocations of a group and nothing else.
func indexArgs(c *proto.TaskConfig) map[string]string {
	const name = "NOMAD_ALLOC_INDEX"
	index := c.GetEnv()[name]
	if _, err := strconv.ParseUint(index, 10, 31); err != nil {
		return nil
	}
	return map[string]string{name: index}
}

// begin makes a task of its attachments, emits their events and watches it.
func (d *driver) begin(c *proto.TaskConfig, a *hook.Allocation, advertised string) (*task, error) {
	ns, err := netns.Open(a.Netns)
	if err != nil {
		return nil, err
	}
	s := driverState{Started: time.Now().UTC(), NetnsID: ns.ID(), Advertised: advertised}
	_ = ns.Close() // read only
	for _, n := range ofTask(a, c.GetName()) {
		s.Interfaces = append(s.Interfaces, n.Interface)
	}
	t := newTask(c, a, s)
	d.publish(t)
	for _, n := range t.attached {
		d.events.emit(c, annotate(n.Network, n.Interface), "Attached %s as %s %s", n.Network, n.Interface, texts.Join(n.Addresses, ", "))
	}
	d.run(t)
	return t, nil
}

func newTask(c *proto.TaskConfig, a *hook.Allocation, s driverState) *task {
	t := &task{config: c, saved: s, attached: ofTask(a, c.GetName()), ended: make(chan struct{})}
	t.override = networkOverride(t.attached, s.Advertised)
	return t
}

// run adds the task and watches it.
func (d *driver) run(t *task) {
	ctx, stop := context.WithCancel(context.Background())
	t.stopWatch = stop
	d.tasks.add(t)
	go d.watch(ctx, t)
}

// ofTask returns the attachments of a task.
func ofTask(a *hook.Allocation, name string) []hook.Attachment {
	return slices.DeleteFunc(slices.Clone(a.Attachments), func(n hook.Attachment) bool { return n.Task != name })
}

// networkOverride returns the address that Nomad registers the task's services with.
func networkOverride(attached []hook.Attachment, advertised string) *proto.NetworkOverride {
	for _, n := range attached {
		if n.Network == advertised && len(n.Addresses) > 0 {
			return &proto.NetworkOverride{Addr: n.Addresses[0].Addr().String(), AutoAdvertise: true}
		}
	}
	return nil
}

// stop detaches a task, even if it has ended. After a failure the task stays
// running.
func (d *driver) stop(ctx context.Context, t *task) error {
	engine, err := d.settings.ready()
	if err != nil {
		return err
	}
	traffic := t.traffic()
	// The caller may disconnect: a partial detach would be worse than a late one.
	if err := engine.Release(context.WithoutCancel(ctx), t.config.GetAllocId(), t.config.GetName()); err != nil {
		d.events.emit(t.config, nil, "Detaching failed: %v", err)
		return err
	}
	retryLater(engine, d.log)
	t.stopWatch()
	d.publish(t)
	if t.running() { // Nomad ignores events of an ended task
		for _, n := range t.attached {
			d.events.emit(t.config, annotate(n.Network, n.Interface), "Detached %s from %s%s", n.Network, n.Interface, traffic[n.Interface])
		}
	}
	t.end(&proto.ExitResult{}, "")
	return nil
}

// end marks the task as ended. Only the first call has an effect.
func (t *task) end(result *proto.ExitResult, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.result != nil {
		return
	}
	t.result, t.reason, t.completed = result, validUTF8(reason), time.Now().UTC()
	close(t.ended)
}

func (t *task) state() (proto.TaskState, time.Time, *proto.ExitResult, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.result == nil {
		return proto.TaskState_RUNNING, time.Time{}, nil, ""
	}
	return proto.TaskState_EXITED, t.completed, t.result, t.reason
}

func (t *task) running() bool {
	state, _, _, _ := t.state()
	return state == proto.TaskState_RUNNING
}

// handle returns the handle that Nomad keeps for RecoverTask.
func (t *task) handle() (*proto.TaskHandle, error) {
	data, err := json.Marshal(t.saved)
	if err != nil {
		return nil, err
	}
	return &proto.TaskHandle{Version: handleVersion, Config: t.config, State: proto.TaskState_RUNNING, DriverState: data}, nil
}

func (t *task) status() *proto.TaskStatus {
	state, completed, result, _ := t.state()
	s := &proto.TaskStatus{Id: t.config.GetId(), Name: t.config.GetName(), State: state, StartedAt: timestamppb.New(t.saved.Started), CompletedAt: timestamppb.New(completed), Result: result}
	if result == nil {
		s.Result = &proto.ExitResult{}
	}
	return s
}

// attributes describes the task's interfaces.
func (t *task) attributes() map[string]string {
	attributes := map[string]string{}
	for _, n := range t.attached {
		attributes[n.Interface+".network"] = n.Network
		attributes[n.Interface+".addresses"] = texts.Join(n.Addresses, ", ")
		attributes[n.Interface+".mac"] = n.MAC
	}
	present, err := t.interfaces()
	if err != nil {
		return attributes
	}
	for _, i := range present {
		if _, ours := attributes[i.Name+".network"]; ours {
			attributes[i.Name+".rx_bytes"] = fmt.Sprint(i.Received)
			attributes[i.Name+".tx_bytes"] = fmt.Sprint(i.Sent)
		}
	}
	return attributes
}
