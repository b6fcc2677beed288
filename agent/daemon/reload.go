// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"os"
	"os/signal"
	"strings"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

func (d *Daemon) reloadOnHangup(ctx context.Context) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, unix.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			d.notify.reloading()
			d.metrics.Reloaded(d.reload())
			d.notify.ready()
		}
	}
}

// reload keeps the configuration in use if the new one is invalid.
func (d *Daemon) reload() error {
	next, err := d.load()
	if err != nil {
		d.log.Error("the new configuration is invalid; the old one stays in use", "error", err)
		return err
	}
	if names := d.config.NeedRestart(next); len(names) > 0 {
		d.log.Warn("these changes need a restart", "settings", strings.Join(names, ", "))
	}
	d.log.SetLevel(hclog.LevelFromString(next.LogLevel))
	d.reconciler.Configure(next.Reconcile.Interval, next.Reconcile.Leaks == "report")
	d.reconciler.Kick()
	if d.repairer != nil {
		d.repairer.Configure(repairMode(next.Repair))
	}
	if d.pools != nil {
		d.pools.Configure(poolSettings(next.IPAM))
		d.span.Configure(spanSettings(next.Cluster))
	}
	d.log.Info("configuration reloaded")
	return nil
}
