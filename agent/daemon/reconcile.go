// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/hostns"
	"github.com/allocnet/allocnet/internal/unit"
	"github.com/allocnet/allocnet/nomad"
)

func (d *Daemon) newReconciler(engine agent.Collector) *agent.Reconciler {
	c := agent.ReconcilerConfig{Collector: engine, Metrics: d.metrics, Logger: d.log.Named("reconcile")}
	if d.config.Hook == hook.NoOp { // the host's rules and leases are not ours
		return agent.NewReconciler(c)
	}
	c.Collector = outcomeCollector{engine, unit.OutcomeDir}
	c.Outside = func() error { return outside(d.config.CNI.Chroot) }
	if d.nomad != nil {
		c.Live, c.Orchestrated = d.nomad, nomad.Attached
	}
	r := agent.NewReconciler(c)
	r.Configure(d.config.Reconcile.Interval, d.config.Reconcile.Leaks == "report")
	return r
}

// outside returns an error if the agent does not see the namespaces and rules of
// the host.
func outside(chroot string) error {
	if chroot != "" && filepath.Clean(chroot) != "/" {
		return hostns.Outside(fmt.Errorf("cni.chroot is %q, so its own files are not the host's", chroot))
	}
	return hostns.Check()
}

// outcomeCollector also removes the outcome files of killed processes.
type outcomeCollector struct {
	agent.Collector
	dir string
}

// GC is that of agent.Collector.
func (c outcomeCollector) GC(ctx context.Context, r hook.GCRequest) (*hook.Collected, error) {
	collected, err := c.Collector.GC(ctx, r)
	return collected, errors.Join(err, unit.RemoveAbandonedOutcomes(c.dir))
}
