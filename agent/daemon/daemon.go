// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package daemon assembles the agent from its configuration: the engine, the API,
// the reconciler, the client of Nomad, and the notifications to systemd.
package daemon

import (
	"context"
	"io"
	"net"
	"os/signal"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/agent/denied"
	"github.com/allocnet/allocnet/agent/hosts"
	"github.com/allocnet/allocnet/agent/repair"
	"github.com/allocnet/allocnet/cluster/pools"
	"github.com/allocnet/allocnet/cluster/span"
	"github.com/allocnet/allocnet/event"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/nomad"
)

// Load reads the configuration, at each reload again.
type Load func() (config.Config, error)

// Daemon is an agent with its background tasks.
type Daemon struct {
	config     config.Config
	load       Load
	log        hclog.Logger
	metrics    *agent.Metrics
	agent      *agent.Agent
	reconciler *agent.Reconciler
	nomad      *nomad.Client         // nil without a block nomad
	conflist   *agent.Conflist       // nil without a block multi
	pools      *pools.Pools          // nil with the hook "noop"
	span       *span.Span            // nil without pools
	repairer   *repair.Repairer      // nil with the hook "noop"
	isolation  *refresher            // nil with the hook "noop"
	denied     *denied.Log           // nil with the hook "noop"
	rosters    *rosters              // nil with the hook "noop"
	leases     func(context.Context) // nil with the hook "noop"
	hosts      *hosts.Keeper         // nil without the block nomad
	// unlockRoutes lets another process change the routes of the host. Nil: this one has not
	// needed them. The lock ends with the process.
	unlockRoutes func()
	notify       notifier
}

// New returns the daemon that the configuration describes. It logs to stderr.
func New(load Load, stderr io.Writer) (*Daemon, error) {
	c, err := load()
	if err != nil {
		return nil, err
	}
	log, err := newLogger(c, stderr)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	d := &Daemon{config: c, load: load, log: log, metrics: agent.NewMetrics(registry)}
	engine, err := d.newEngine()
	if err != nil {
		return nil, err
	}
	if d.nomad, err = newNomad(c, log); err != nil {
		return nil, err
	}
	d.reconciler = d.newReconciler(engine)
	d.conflist = d.newConflist()
	d.pools = d.newPools()
	d.span = d.newSpan()
	d.repairer = d.newRepairer(engine)
	d.isolation, d.denied = newRefresher(engine, d.config.ConfDirs, d.log), newDenied(engine, d.log)
	d.rosters = d.newRosters(engine)
	d.hosts = newHosts(d, engine)
	d.leases = newLeases(engine, d.config.CNI.Chroot, d.log)
	d.agent = agent.New(d.agentConfig(engine), engine)
	return d, nil
}

func (d *Daemon) agentConfig(engine agent.Engine) agent.Config {
	c, l := d.config, d.config.Limits
	var events agent.EventLog
	if c.Hook != hook.NoOp {
		events = event.Log{StateDir: c.StateDir}
	}
	a := agent.Config{
		ConfDirs: c.ConfDirs, PluginDirs: c.PluginDirs, Executor: c.Executor, HostNetwork: c.Hook == hook.NoOp, Access: c.Socket.Access, Pprof: c.Pprof,
		MaxConnections: l.Connections, MaxRequests: l.Requests, MaxBody: l.Body,
		HeaderTimeout: l.HeaderTimeout, ReadTimeout: l.ReadTimeout, RequestTimeout: l.RequestTimeout, DrainTimeout: l.DrainTimeout,
		Metrics: d.metrics, Ready: d.notReady, Collect: d.reconciler.Collect, CNI: d.cni(), Events: events, Map: d.drawMap(engine), Logger: d.log,
	}
	if d.pools != nil {
		a.Pools, a.Cluster, a.Leaks = d.pools.Status, d.span.Status, d.reconciler.Leaks
	}
	if d.repairer != nil {
		a.Repair = d.repairer.Status
	}
	if e, ok := engine.(isolated); ok {
		a.AddDenied, a.Denied = e.Isolation().AddDenied, d.denied.Flows
	}
	return a
}

// Run serves until SIGTERM or SIGINT. Further ones change nothing, also after Run has
// returned: a process that ends by itself is not to end by a signal.
func (d *Daemon) Run(ctx context.Context) error {
	ctx, _ = signal.NotifyContext(ctx, unix.SIGTERM, unix.SIGINT)
	listeners, err := d.listen()
	if err != nil {
		return err
	}
	metrics, err := d.listenMetrics()
	if err != nil {
		return err
	}
	background, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	tasks := d.tasks(listeners)
	if metrics != nil {
		tasks = append(tasks, metrics.run)
	}
	for _, task := range tasks {
		group.Go(func() { task(background) })
	}
	d.log.Info("serving", "socket", listeners[0].Addr().String())
	err = d.agent.Serve(ctx, listeners...)
	d.log.Info("stopped")
	return err
}

// tasks run in the background until the server is told to stop.
func (d *Daemon) tasks(listeners []net.Listener) []func(context.Context) {
	tasks := []func(context.Context){
		d.reconciler.Run,
		d.reloadOnHangup,
		func(ctx context.Context) { d.notify.run(ctx, listeners[0].Addr().String(), d.log) },
	}
	if d.conflist != nil {
		tasks = append(tasks, d.conflist.Keep)
	}
	if d.pools != nil {
		tasks = append(tasks, d.pools.Run, d.span.Run)
	}
	if d.repairer != nil {
		tasks = append(tasks, d.repairer.Run)
	}
	if d.isolation != nil {
		tasks = append(tasks, d.isolation.run)
	}
	if d.denied != nil {
		tasks = append(tasks, d.denied.Run)
	}
	if d.rosters != nil {
		tasks = append(tasks, d.rosters.run)
	}
	if d.leases != nil {
		tasks = append(tasks, d.leases)
	}
	if d.hosts != nil {
		tasks = append(tasks, d.hosts.Run)
	}
	if d.nomad != nil && d.config.Nomad.Events {
		tasks = append(tasks, func(ctx context.Context) { d.nomad.Watch(ctx, d.reconciler.Kick) })
	}
	if d.nomad != nil && d.config.Nomad.Metadata {
		tasks = append(tasks, d.publish)
	}
	return tasks
}

// listen takes the sockets of systemd's socket unit, else creates one.
func (d *Daemon) listen() ([]net.Listener, error) {
	activated, err := activatedListeners()
	if err != nil {
		return nil, err
	}
	for _, l := range activated {
		if err := agent.Adopt(l.Addr().String(), d.config.Socket.Access); err != nil {
			d.log.Error("owner and group of the block socket are not applied to the socket of systemd", "error", err)
		}
	}
	if len(activated) > 0 {
		return activated, nil
	}
	l, err := agent.Listen(d.config.Socket.Path, d.config.Socket.Access)
	if err != nil {
		return nil, err
	}
	return []net.Listener{l}, nil
}
