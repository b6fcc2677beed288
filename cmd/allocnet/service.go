// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/hostns"
	"github.com/allocnet/allocnet/internal/unit"
	"github.com/allocnet/allocnet/nomad"
	"github.com/allocnet/allocnet/state"
)

// service is a running agent and what runs beside it.
type service struct {
	config     config.Config
	log        hclog.Logger
	metrics    *agent.Metrics
	agent      *agent.Agent
	reconciler *agent.Reconciler
	nomad      *nomad.Client   // nil where no Nomad is asked
	conflist   *agent.Conflist // nil where none is written
	notify     notifier
}

func newService(c config.Config, stderr io.Writer) (*service, error) {
	log, err := newAgentLog(c, stderr)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s := &service{config: c, log: log, metrics: agent.NewMetrics(registry)}
	engine, err := hook.NewEngine(hook.Config{
		ConfDirs: c.ConfDirs, PluginDirs: c.PluginDirs, StateDir: c.StateDir, CallTimeout: c.CallTimeout, OwnerGone: unit.Gone,
		Observer: s.metrics, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	if c.Nomad != nil {
		if s.nomad, err = newNomad(c, log); err != nil {
			return nil, err
		}
	}
	store, err := state.Open(c.StateDir)
	if err != nil {
		return nil, err
	}
	s.reconciler = newReconciler(c, engine, store, s)
	s.conflist = s.newConflist()
	s.agent = agent.New(s.agentConfig(), engine)
	return s, nil
}

func newNomad(c config.Config, log hclog.Logger) (*nomad.Client, error) {
	n := c.Nomad
	return nomad.New(nomad.Config{
		Address: n.Address, TokenFile: n.TokenFile, CAFile: n.CAFile, CertFile: n.CertFile, KeyFile: n.KeyFile, TLSName: n.TLSName,
		NodeID: n.NodeID, NetworksDir: filepath.Join(c.StateDir, "job-networks"), Logger: log.Named("nomad"),
	})
}

func newReconciler(c config.Config, engine *hook.Engine, store *state.Store, s *service) *agent.Reconciler {
	log := s.log.Named("reconcile")
	sweeper := &agent.HostSweeper{Store: store, ConfDirs: c.ConfDirs, Logger: log}
	rc := agent.ReconcilerConfig{
		Collector: outcomeCollector{engine, outcomeDir}, Metrics: s.metrics, Logger: log, Sweeper: sweeper, Outside: func() error { return outside(c.CNI.Chroot) },
	}
	if s.nomad != nil {
		rc.Live, sweeper.Orchestrated = s.nomad, nomad.Attached
	}
	r := agent.NewReconciler(rc)
	r.Configure(c.Reconcile.Interval, c.Reconcile.Leaks == "report")
	return r
}

// outside says why the agent does not see what lives on the host.
func outside(chroot string) error {
	if chroot != "" && filepath.Clean(chroot) != "/" {
		return &hostns.OutsideError{Reason: fmt.Sprintf("cni.chroot is %q, so its own files are not the host's", chroot)}
	}
	return hostns.Check()
}

func (s *service) newConflist() *agent.Conflist {
	m := s.config.Multi
	if m == nil {
		return nil
	}
	multi := cniconf.Multi{
		Name: m.Name, Networks: m.Networks, ConfDirs: s.config.ConfDirs, DataDir: m.DataDir,
		PluginDir: strings.Join(s.config.PluginDirs, ":"),
	}
	if s.config.StateDir != state.DefaultDir {
		multi.StateDir = s.config.StateDir
	}
	if m.Agent != "" {
		multi.Agent = &cniconf.MultiAgent{Socket: s.config.Socket.Path, Mode: m.Agent}
	}
	path := cmp.Or(m.Path, filepath.Join(lastDir(s.config.ConfDirs), "00-"+m.Name+".conflist"))
	return &agent.Conflist{Path: path, Source: m.Source, Multi: multi, Primary: m.Primary, Metrics: s.metrics, Logger: s.log}
}

func (s *service) agentConfig() agent.Config {
	c, l := s.config, s.config.Limits
	return agent.Config{
		ConfDirs: c.ConfDirs, PluginDirs: c.PluginDirs, Access: c.Socket.Access, Pprof: c.Pprof,
		MaxConnections: l.Connections, MaxRequests: l.Requests, MaxBody: l.Body,
		HeaderTimeout: l.HeaderTimeout, ReadTimeout: l.ReadTimeout, RequestTimeout: l.RequestTimeout, DrainTimeout: l.DrainTimeout,
		Metrics: s.metrics, Ready: s.waitingFor, Collect: s.reconciler.Collect, CNI: s.cni(), Logger: s.log,
	}
}

// cni runs the CNI plugin: the configured one, else that beside the others.
func (s *service) cni() agent.CNI {
	path := s.config.CNI.Plugin
	for _, dir := range cniconf.PluginDirs(s.config.PluginDirs) {
		if path == "" && exists(filepath.Join(s.config.CNI.Chroot, dir, agent.PluginName)) {
			path = filepath.Join(dir, agent.PluginName)
		}
	}
	if path == "" {
		return nil
	}
	p := &agent.Plugin{Path: path, Chroot: s.config.CNI.Chroot}
	if s.nomad != nil && s.config.Nomad.Wishes {
		p.Wishes = s.nomad
	}
	return p
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// waitingFor says what is to come before the agent is ready.
func (s *service) waitingFor() []string {
	var missing []string
	if !s.reconciler.Settled() {
		missing = append(missing, "the first round of the reconciler is not over")
	}
	if path := s.config.ReadyFile; path != "" && !exists(path) {
		missing = append(missing, fmt.Sprintf("there is no %s", path))
	}
	if s.conflist != nil && !s.conflist.Written() {
		missing = append(missing, fmt.Sprintf("%s is not written yet", s.conflist.Path))
	}
	return missing
}

// run serves until SIGTERM or SIGINT.
func (s *service) run(ctx context.Context, load func() (config.Config, error)) error {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM, unix.SIGINT)
	defer stop()
	listeners, err := s.listen()
	if err != nil {
		return err
	}
	beside, end := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer end()
	for _, task := range s.tasks(listeners, load) {
		group.Go(func() { task(beside) })
	}
	s.log.Info("serving", "socket", listeners[0].Addr().String())
	err = s.agent.Serve(ctx, listeners...)
	s.log.Info("stopped")
	return err
}

// tasks run beside the server until it is told to stop.
func (s *service) tasks(listeners []net.Listener, load func() (config.Config, error)) []func(context.Context) {
	tasks := []func(context.Context){
		s.reconciler.Run,
		func(ctx context.Context) { s.reloadOnHangup(ctx, load) },
		func(ctx context.Context) { s.notify.run(ctx, listeners[0].Addr().String(), s.log) },
	}
	if s.conflist != nil {
		tasks = append(tasks, s.conflist.Keep)
	}
	if s.nomad != nil && s.config.Nomad.Events {
		tasks = append(tasks, func(ctx context.Context) { s.nomad.Watch(ctx, s.reconciler.Kick) })
	}
	if s.nomad != nil && s.config.Nomad.Metadata {
		tasks = append(tasks, s.publish)
	}
	return tasks
}

// listen takes what systemd hands over, else makes the socket.
func (s *service) listen() ([]net.Listener, error) {
	activated, err := activatedListeners()
	if err != nil {
		return nil, err
	}
	for _, l := range activated {
		if err := agent.Adopt(l, s.config.Socket.Access); err != nil {
			s.log.Error("the socket from systemd is not for all that the block socket names", "error", err)
		}
	}
	if len(activated) > 0 {
		return activated, nil
	}
	l, err := agent.Listen(s.config.Socket.Path, s.config.Socket.Access)
	if err != nil {
		return nil, err
	}
	return []net.Listener{l}, nil
}

// publishInterval is how often the networks are compared with what Nomad has.
const publishInterval = time.Minute

// publish keeps the node's metadata in Nomad as the conf directory is.
func (s *service) publish(ctx context.Context) {
	for {
		if err := s.publishOnce(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("publish networks in nomad", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(publishInterval):
		}
	}
}

func (s *service) publishOnce(ctx context.Context) error {
	catalog, err := cniconf.Load(s.config.ConfDirs...)
	if err != nil {
		return err
	}
	var names []string
	usable, _ := catalog.Usable(s.config.PluginDirs).Split()
	for _, n := range usable {
		names = append(names, n.Name)
	}
	return s.nomad.Publish(ctx, names)
}

// reloadOnHangup takes the configuration up anew at each SIGHUP.
func (s *service) reloadOnHangup(ctx context.Context, load func() (config.Config, error)) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, unix.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			s.notify.reloading()
			s.metrics.Reloaded(s.reload(load))
			s.notify.ready()
		}
	}
}

// reload keeps what is in use when the new configuration is at fault.
func (s *service) reload(load func() (config.Config, error)) error {
	next, err := load()
	if err != nil {
		s.log.Error("configuration is at fault; going on with the old one", "error", err)
		return err
	}
	if names := s.config.NeedRestart(next); len(names) > 0 {
		s.log.Warn("changes that need a restart", "settings", strings.Join(names, ", "))
	}
	s.log.SetLevel(hclog.LevelFromString(next.LogLevel))
	s.reconciler.Configure(next.Reconcile.Interval, next.Reconcile.Leaks == "report")
	s.reconciler.Kick()
	s.log.Info("configuration was read again")
	return nil
}
