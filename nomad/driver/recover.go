// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/nomad/driver/proto"
	"github.com/allocnet/allocnet/state"
)

// recover takes over a task. A task that cannot be recovered counts as ended until it
// is destroyed.
func (d *driver) recover(ctx context.Context, handle *proto.TaskHandle) error {
	handle.Config = cmp.Or(handle.Config, &proto.TaskConfig{})
	c := handle.Config
	t, err := d.recovered(ctx, handle)
	if err == nil {
		d.run(t)
		return nil
	}
	lost := &task{config: c, ended: make(chan struct{}), stopWatch: func() {}}
	lost.end(&proto.ExitResult{ExitCode: 1}, err.Error())
	if c.Id != "" {
		d.tasks.add(lost)
	}
	return err
}

func (d *driver) recovered(ctx context.Context, handle *proto.TaskHandle) (*task, error) {
	c := handle.Config
	if handle.Version != handleVersion {
		return nil, fmt.Errorf("handle has version %d: want %d", handle.Version, handleVersion)
	}
	var s driverState
	if err := json.Unmarshal(handle.DriverState, &s); err != nil {
		return nil, fmt.Errorf("handle: %w", err)
	}
	engine, err := d.settings.ready()
	if err != nil {
		return nil, err
	}
	a, err := engine.Status(ctx, c.AllocId)
	if err != nil {
		return nil, err
	}
	t := newTask(c, a, s)
	return t, t.verify()
}

// verify returns an error if an interface of the task is missing on record or in the
// namespace.
func (t *task) verify() error {
	for _, name := range t.saved.Interfaces {
		at := slices.IndexFunc(t.attached, func(n hook.Attachment) bool { return n.Interface == name })
		if at < 0 {
			return fmt.Errorf("interface %s is not on record", name)
		}
		if phase := t.attached[at].Phase; phase != state.Attached {
			return fmt.Errorf("interface %s is recorded in phase %q", name, phase)
		}
	}
	lost, err := t.lostInterface()
	if lost != "" {
		return errors.New(lost)
	}
	return err
}
