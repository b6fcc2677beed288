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
	n.status(ctx, c, log)
	n.ready()
	pause := 10 * time.Second // of the status line alone
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("watchdog", "error", err)
	}
	if limit > 0 {
		pause = min(pause, limit/3)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
			if n.status(ctx, c, log) {
				n.tell(daemon.SdNotifyWatchdog)
			}
		}
	}
}

// status shows what stands, as the agent itself answers, and whether it does.
func (n notifier) status(ctx context.Context, c *client.Client, log hclog.Logger) bool {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	all, err := c.Allocations(ctx)
	if err != nil {
		log.Error("the agent does not answer itself", "error", err)
		return false
	}
	attachments := 0
	for _, a := range all {
		attachments += len(a.Attachments)
	}
	text := "Ready"
	if err := c.Ready(ctx); err != nil {
		text = "Not ready: " + err.Error()
	}
	n.tell(fmt.Sprintf("STATUS=%s; %d allocations with %d attachments", text, len(all), attachments))
	return true
}
