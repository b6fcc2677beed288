// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// handleVersion is that of what Nomad keeps of a task for RecoverTask.
const handleVersion = 1

// task is one attachment task, from its start until it is destroyed.
type task struct {
	config   *proto.TaskConfig
	override *proto.NetworkOverride
	// attached are the task's own, in the order of their numbering.
	attached []hook.Attachment
	saved    driverState
	// stopWatch ends the look-out for the interfaces.
	stopWatch context.CancelFunc
	// ended is closed when the task has ended.
	ended chan struct{}

	mu        sync.Mutex // guards all below
	completed time.Time
	result    *proto.ExitResult
	reason    string
}

// driverState is what Nomad keeps of a task for us. It keeps the task's config,
// too, but not the part that is the driver's.
type driverState struct {
	Started time.Time `json:"started"`
	// NetnsID is the namespace's identity when the task was started.
	NetnsID    string   `json:"netnsID"`
	Interfaces []string `json:"interfaces"`
	// Advertised is the network whose address is the task's.
	Advertised string `json:"advertised"`
}

// start attaches a task and begins to watch it.
func (d *Driver) start(ctx context.Context, c *proto.TaskConfig) (*task, error) {
	engine, err := d.ready()
	if err != nil {
		return nil, err
	}
	var config taskConfig
	if err := decode(c.GetMsgpackDriverConfig(), &config); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	request, err := d.request(c, config)
	if err != nil {
		return nil, err
	}
	advertised, err := config.advertised()
	if err != nil {
		return nil, err
	}
	// A process that was killed while it started this task left what Nomad
	// knows nothing of.
	if err := engine.Release(ctx, c.GetAllocId(), c.GetName()); err != nil {
		return nil, err
	}
	allocation, err := engine.Extend(ctx, request)
	if err != nil {
		return nil, inWords(err, config.names())
	}
	d.retryLater(engine)
	return d.begin(c, allocation, advertised)
}

// request is what the task asks of the engine.
func (d *Driver) request(c *proto.TaskConfig, config taskConfig) (hook.Request, error) {
	isolation := c.GetNetworkIsolationSpec()
	if isolation.GetMode() != proto.NetworkIsolationSpec_GROUP || isolation.GetPath() == "" {
		return hook.Request{}, errors.New(`the task's group has no network namespace of its own: write network { mode = "bridge" }, or another mode than "host", in the group`)
	}
	elements, err := config.elements()
	if err != nil {
		return hook.Request{}, err
	}
	ports, err := config.ports(c.GetResources().GetPorts())
	if err != nil {
		return hook.Request{}, err
	}
	return hook.Request{
		ID: c.GetAllocId(), Task: c.GetName(), Netns: isolation.GetPath(), Networks: elements, Ports: ports,
		Identity: policy.Identity{Namespace: c.GetNamespace(), Job: c.GetJobId(), Group: c.GetTaskGroupName()},
		Notify:   func(s hook.Step) { d.emitTry(c, s) },
	}, nil
}

// begin makes a task of what is attached for it, says so, and watches it.
func (d *Driver) begin(c *proto.TaskConfig, a *hook.Allocation, advertised string) (*task, error) {
	ns, err := netns.Open(a.Netns)
	if err != nil {
		return nil, err
	}
	s := driverState{Started: time.Now().UTC(), NetnsID: ns.ID(), Advertised: advertised}
	_ = ns.Close() // only looked at
	for _, n := range ofTask(a, c.GetName()) {
		s.Interfaces = append(s.Interfaces, n.Interface)
	}
	t := newTask(c, a, s)
	d.publish(t)
	for _, n := range t.attached {
		d.emit(c, annotate(n.Network, n.Interface), "Attached %s as %s %s", n.Network, n.Interface, joined(n.Addresses))
	}
	d.run(t)
	return t, nil
}

func newTask(c *proto.TaskConfig, a *hook.Allocation, s driverState) *task {
	t := &task{config: c, saved: s, attached: ofTask(a, c.GetName()), ended: make(chan struct{})}
	t.override = networkOverride(t.attached, s.Advertised)
	return t
}

// run makes the task known and watches it.
func (d *Driver) run(t *task) {
	ctx, stop := context.WithCancel(context.Background())
	t.stopWatch = stop
	d.keep(t)
	go d.watch(ctx, t)
}

// ofTask returns the attachments of a task.
func ofTask(a *hook.Allocation, name string) []hook.Attachment {
	return slices.DeleteFunc(slices.Clone(a.Attachments), func(n hook.Attachment) bool { return n.Task != name })
}

// networkOverride is the address and the ports that Nomad registers services
// of the task with.
func networkOverride(attached []hook.Attachment, advertised string) *proto.NetworkOverride {
	for _, n := range attached {
		if n.Network == advertised && len(n.Addresses) > 0 {
			return &proto.NetworkOverride{Addr: n.Addresses[0].Addr().String(), AutoAdvertise: true}
		}
	}
	return nil
}

func joined(addresses []netip.Prefix) string {
	var texts []string
	for _, address := range addresses {
		texts = append(texts, address.String())
	}
	return strings.Join(texts, ", ")
}

// watch fails the task when one of its interfaces vanishes, so that Nomad
// restarts it. It looks from outside and holds nothing open: an open namespace
// would outlive its allocation, and its interfaces with it.
func (d *Driver) watch(ctx context.Context, t *task) {
	ticker := time.NewTicker(d.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		lost, err := t.look()
		switch {
		case err != nil:
			d.log.Warn("interfaces cannot be looked at", "allocation", t.config.GetAllocId(), "task", t.config.GetName(), "error", err)
		case lost != "":
			d.emit(t.config, nil, "%s", lost)
			t.end(&proto.ExitResult{ExitCode: 1}, lost)
			return
		}
	}
}

// look says what is lost; an error is that it cannot be seen.
func (t *task) look() (lost string, err error) {
	present, err := t.interfaces()
	if errors.Is(err, netns.ErrMissing) {
		return err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	for _, n := range t.attached {
		if !slices.ContainsFunc(present, func(i netns.Interface) bool { return i.Name == n.Interface }) {
			return fmt.Sprintf("interface %s of network %s is gone", n.Interface, n.Network), nil
		}
	}
	return "", nil
}

// interfaces returns those of the namespace that the task was started in.
func (t *task) interfaces() ([]netns.Interface, error) {
	ns, err := state.Allocation{Netns: t.config.GetNetworkIsolationSpec().GetPath(), NetnsID: t.saved.NetnsID}.Namespace()
	if err != nil {
		return nil, err
	}
	defer ns.Close() //nolint:errcheck // read only
	return ns.Interfaces()
}

// stop detaches a task, also one that has ended by itself. When it fails the
// task goes on.
func (d *Driver) stop(ctx context.Context, t *task) error {
	engine, err := d.ready()
	if err != nil {
		return err
	}
	traffic := t.traffic()
	// Whoever asked may go away meanwhile; half detached would help nobody.
	if err := engine.Release(context.WithoutCancel(ctx), t.config.GetAllocId(), t.config.GetName()); err != nil {
		d.emit(t.config, nil, "Detaching failed: %v", err)
		return err
	}
	d.retryLater(engine)
	t.stopWatch()
	d.publish(t)
	if t.running() { // Nomad hears no more of a task that has ended
		for _, n := range t.attached {
			d.emit(t.config, annotate(n.Network, n.Interface), "Detached %s from %s%s", n.Network, n.Interface, traffic[n.Interface])
		}
	}
	t.end(&proto.ExitResult{}, "")
	return nil
}

// traffic says for each interface what went through it.
func (t *task) traffic() map[string]string {
	texts := map[string]string{}
	present, err := t.interfaces()
	if err != nil {
		return texts // then nobody knows
	}
	for _, i := range present {
		texts[i.Name] = fmt.Sprintf(", %d bytes received, %d sent", i.Received, i.Sent)
	}
	return texts
}

// recover takes a task over. One that cannot be is known, too, as ended, until
// it is destroyed.
func (d *Driver) recover(ctx context.Context, handle *proto.TaskHandle) error {
	c := handle.GetConfig()
	t, err := d.recovered(ctx, handle)
	if err == nil {
		d.run(t)
		return nil
	}
	lost := &task{config: c, ended: make(chan struct{}), stopWatch: func() {}}
	lost.end(&proto.ExitResult{ExitCode: 1}, err.Error())
	if c.GetId() != "" {
		d.keep(lost)
	}
	return err
}

func (d *Driver) recovered(ctx context.Context, handle *proto.TaskHandle) (*task, error) {
	c := handle.GetConfig()
	if handle.GetVersion() != handleVersion {
		return nil, fmt.Errorf("handle has version %d, this program knows %d", handle.GetVersion(), handleVersion)
	}
	var s driverState
	if err := json.Unmarshal(handle.GetDriverState(), &s); err != nil {
		return nil, fmt.Errorf("handle: %w", err)
	}
	engine, err := d.ready()
	if err != nil {
		return nil, err
	}
	a, err := engine.Status(ctx, c.GetAllocId())
	if err != nil {
		return nil, err
	}
	t := newTask(c, a, s)
	return t, t.intact()
}

// intact tells whether all networks are on record and in the namespace.
func (t *task) intact() error {
	for _, name := range t.saved.Interfaces {
		at := slices.IndexFunc(t.attached, func(n hook.Attachment) bool { return n.Interface == name })
		if at < 0 {
			return fmt.Errorf("interface %s is not on record", name)
		}
		if phase := t.attached[at].Phase; phase != state.Attached {
			return fmt.Errorf("interface %s is recorded in phase %q", name, phase)
		}
	}
	lost, err := t.look()
	if lost != "" {
		return errors.New(lost)
	}
	return err
}

// end makes the task ended, for the first reason that it is given.
func (t *task) end(result *proto.ExitResult, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.result != nil {
		return
	}
	t.result, t.reason, t.completed = result, clean(reason), time.Now().UTC()
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

// handle is what Nomad keeps and gives to RecoverTask.
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

// attributes describe the task's interfaces.
func (t *task) attributes() map[string]string {
	attributes := map[string]string{}
	for _, n := range t.attached {
		attributes[n.Interface+".network"] = n.Network
		attributes[n.Interface+".addresses"] = joined(n.Addresses)
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
