// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/nomad/driver/proto"
)

// backlog is the number of events that are kept while Nomad does not read them.
const backlog = 256

// events are the events that Nomad has not read yet.
type events struct {
	queue chan *proto.DriverTaskEvent
	log   hclog.Logger
}

func newEvents(log hclog.Logger) *events {
	return &events{make(chan *proto.DriverTaskEvent, backlog), log}
}

// add never blocks: if the backlog is full it drops the oldest event.
func (e *events) add(event *proto.DriverTaskEvent) {
	for {
		select {
		case e.queue <- event:
			return
		default:
		}
		select {
		case <-e.queue:
		default: // a reader was faster
		}
	}
}

// stream sends events until ctx ends or sending fails.
func (e *events) stream(ctx context.Context, send func(*proto.DriverTaskEvent) error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event := <-e.queue:
			if err := send(event); err != nil {
				e.add(event) // for the next stream
				return err
			}
		}
	}
}

// emit adds an event of a task. `nomad alloc status` shows it.
func (e *events) emit(c *proto.TaskConfig, annotations map[string]string, format string, args ...any) {
	message := validUTF8(fmt.Sprintf(format, args...))
	e.log.Info(message, "allocation", c.AllocId, "task", c.Name)
	e.add(&proto.DriverTaskEvent{
		TaskId: c.Id, AllocId: c.AllocId, TaskName: c.Name,
		Timestamp: timestamppb.Now(), Message: message, Annotations: annotations,
	})
}

// emitAttempt adds an event for a failed attempt that is repeated. The failure of
// the last attempt is that of the task.
func (e *events) emitAttempt(c *proto.TaskConfig, s hook.Step) {
	if s.Err != nil && s.Attempt < s.Of {
		e.emit(c, annotate(s.Network, s.Interface), "Attaching %s as %s failed, attempt %d of %d: %v", s.Network, s.Interface, s.Attempt, s.Of, s.Err)
	}
}

func annotate(network, iface string) map[string]string {
	return map[string]string{"network": network, "interface": iface}
}
