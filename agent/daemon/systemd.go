// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/internal/wake"
)

// activatedListeners are those of the socket units (sd_listen_fds(3)); none
// without systemd.
func activatedListeners() ([]net.Listener, error) {
	listeners, err := activation.Listeners()
	if err != nil {
		return nil, fmt.Errorf("sockets from systemd: %w", err)
	}
	for _, l := range listeners {
		if _, ok := l.(*net.UnixListener); !ok {
			return nil, errors.New("sockets from systemd: want unix stream sockets only")
		}
	}
	return listeners, nil
}

// notifier sends the state of the service to systemd (sd_notify(3)). Without
// systemd it does nothing.
type notifier struct{}

func (notifier) send(state string) {
	_, _ = daemon.SdNotify(false, state) // no error is worth a stop of the service
}

func (n notifier) ready() { n.send(daemon.SdNotifyReady) }

// reloading sends the time as well, which systemd requires since version 253.
func (n notifier) reloading() {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail with a clock that exists
	n.send(fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, now.Nano()/1000))
}

// statusShare is how many times as long as it takes to make the status line until the next one: it is made of all records.
const statusShare = 100

// oldestStatus is how old the status line becomes at most: it may say that the agent is not ready, or does not answer.
const oldestStatus = time.Minute

// nextStatus is when the status line is made again.
func nextStatus(began time.Time, took time.Duration) time.Time {
	return began.Add(min(statusShare*took, oldestStatus))
}

// run notifies systemd that the service is ready once it answers, then of the
// watchdog as long as it answers, and at the end that it stops.
func (n notifier) run(ctx context.Context, socket string, log hclog.Logger) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return
	}
	defer n.send(daemon.SdNotifyStopping + "\nSTATUS=Draining requests in flight")
	c := client.New(socket)
	pause := 10 * time.Second // of the status line
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("watchdog", "error", err)
	}
	if limit > 0 {
		pause = min(pause, limit/3)
	}
	n.watchdog(ctx, c, log)
	n.ready()
	for due := time.Now(); ; {
		if began := time.Now(); !began.Before(due) {
			n.status(ctx, c)
			due = nextStatus(began, time.Since(began))
		}
		if !wake.After(ctx, pause) {
			return
		}
		n.watchdog(ctx, c, log)
	}
}

// probeTimeout is the deadline of a request to the own API.
const probeTimeout = 5 * time.Second

// watchdog notifies systemd if the agent answers /healthz, which reads no record: a
// record that cannot be read is no reason to restart.
func (n notifier) watchdog(ctx context.Context, c *client.Client, log hclog.Logger) {
	ctx, stop := context.WithTimeout(ctx, probeTimeout)
	defer stop()
	if err := c.Healthy(ctx); err != nil {
		log.Error("the agent does not answer /healthz", "error", err)
		return
	}
	n.send(daemon.SdNotifyWatchdog)
}

// status sends the readiness and the number of allocations.
func (n notifier) status(ctx context.Context, c *client.Client) {
	ctx, stop := context.WithTimeout(ctx, probeTimeout)
	defer stop()
	text := "Ready"
	if err := c.Ready(ctx); err != nil {
		text = "Not ready: " + err.Error()
	}
	all, err := c.Allocations(ctx)
	if err != nil {
		n.send(fmt.Sprintf("STATUS=%s; the allocations cannot be listed: %v", text, err))
		return
	}
	n.send(fmt.Sprintf("STATUS=%s; %s", text, summary(all)))
}

func summary(all []*api.Allocation) string {
	attachments, unreadable := 0, 0
	for _, a := range all {
		attachments += len(a.Attachments)
		if a.Error != "" {
			unreadable++
		}
	}
	text := fmt.Sprintf("%d allocations with %d attachments", len(all), attachments)
	if unreadable > 0 {
		text += fmt.Sprintf(", %d unreadable", unreadable)
	}
	return text
}
