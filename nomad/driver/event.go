// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"

	"github.com/hashicorp/nomad/plugins/drivers/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/allocnet/allocnet/hook"
)

// backlog is how many events wait for Nomad while it does not listen.
const backlog = 256

// events are those that Nomad has not got yet.
type events struct{ queue chan *proto.DriverTaskEvent }

func newEvents() *events { return &events{make(chan *proto.DriverTaskEvent, backlog)} }

// add never waits: when nobody listens for long, the oldest are forgotten.
func (e *events) add(event *proto.DriverTaskEvent) {
	for {
		select {
		case e.queue <- event:
			return
		default:
		}
		select {
		case <-e.queue:
		default: // somebody was quicker
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
				e.add(event) // for who listens next
				return err
			}
		}
	}
}

// emit tells what happens to a task; it shows in `nomad alloc status`.
func (d *Driver) emit(c *proto.TaskConfig, annotations map[string]string, format string, args ...any) {
	message := clean(fmt.Sprintf(format, args...))
	d.log.Info(message, "allocation", c.GetAllocId(), "task", c.GetName())
	d.events.add(&proto.DriverTaskEvent{
		TaskId: c.GetId(), AllocId: c.GetAllocId(), TaskName: c.GetName(),
		Timestamp: timestamppb.Now(), Message: message, Annotations: annotations,
	})
}

// emitTry tells of a try that failed and is followed by another. The last one's
// failure is that of the task.
func (d *Driver) emitTry(c *proto.TaskConfig, s hook.Step) {
	if s.Err != nil && s.Try < s.Of {
		d.emit(c, annotate(s.Network, s.Interface), "Attaching %s as %s failed, try %d of %d: %v", s.Network, s.Interface, s.Try, s.Of, s.Err)
	}
}

func annotate(network, iface string) map[string]string {
	return map[string]string{"network": network, "interface": iface}
}
