// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/client"
)

// activatedListeners are those of the socket units (sd_listen_fds(3)); none
// without.
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

// notifier tells systemd how the service does (sd_notify(3)). Without systemd
// it does nothing.
type notifier struct{}

func (notifier) tell(state string) {
	_, _ = daemon.SdNotify(false, state) // who does not listen is not told
}

func (n notifier) ready() { n.tell(daemon.SdNotifyReady) }

// reloading wants the time as well since systemd 253.
func (n notifier) reloading() {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail with a clock that exists
	n.tell(fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, now.Nano()/1000))
}

// run says that the service is ready when it answers, then keeps the watchdog
// quiet as long as it does, and at last that it stops.
func (n notifier) run(ctx context.Context, socket string, log hclog.Logger) {
	defer n.tell(daemon.SdNotifyStopping + "\nSTATUS=Finishing what is at work")
	c := client.New(socket)
	pause := 10 * time.Second // of the status line alone
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("watchdog", "error", err)
	}
	if limit > 0 {
		pause = min(pause, limit/3)
	}
	n.watchdog(ctx, c, log)
	n.ready()
	for {
		n.status(ctx, c)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
			n.watchdog(ctx, c, log)
		}
	}
}

// askTimeout is the time that the agent has to answer itself.
const askTimeout = 5 * time.Second

// watchdog tells systemd that the agent answers. It asks for nothing that is
// read from the host: a record that cannot be read is no reason to restart.
func (n notifier) watchdog(ctx context.Context, c *client.Client, log hclog.Logger) {
	ctx, stop := context.WithTimeout(ctx, askTimeout)
	defer stop()
	if err := c.Healthy(ctx); err != nil {
		log.Error("the agent does not answer itself", "error", err)
		return
	}
	n.tell(daemon.SdNotifyWatchdog)
}

// status shows what is on record and whether the agent is ready.
func (n notifier) status(ctx context.Context, c *client.Client) {
	ctx, stop := context.WithTimeout(ctx, askTimeout)
	defer stop()
	text := "Ready"
	if err := c.Ready(ctx); err != nil {
		text = "Not ready: " + err.Error()
	}
	all, err := c.Allocations(ctx)
	if err != nil {
		n.tell(fmt.Sprintf("STATUS=%s; the allocations cannot be listed: %v", text, err))
		return
	}
	n.tell(fmt.Sprintf("STATUS=%s; %s", text, summary(all)))
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
