// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/cluster/pools"
	"github.com/allocnet/allocnet/cluster/span"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/hostmap"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
)

// Engine sets up, tears down and lists allocations.
type Engine interface {
	hook.Hook
	List(ctx context.Context) iter.Seq2[*hook.Allocation, error]
	Current(a *hook.Allocation) *hook.Allocation
	Ready(ctx context.Context, n *cniconf.Network) error
}

// Attacher changes the attachments of an allocation that is set up.
type Attacher interface {
	Extend(ctx context.Context, r hook.Request) (*hook.Allocation, error)
	Detach(ctx context.Context, id, iface string) error
}

// CNI executes calls of CNI runtimes.
type CNI interface {
	// Call returns the output of a call's plugin, which is JSON; nil for none.
	Call(ctx context.Context, call api.CNI) ([]byte, error)
}

// Config configures an agent. The zero value is usable: every field has a default.
type Config struct {
	// ConfDirs hold the network configurations. Default: as hook.Config has it.
	ConfDirs []string
	// PluginDirs are searched for CNI plugins. Default: as hook.Config has it.
	PluginDirs []string
	// Executor is as in hook.Config.
	Executor string
	// HostNetwork is set if all allocations use the host's network: then the agent
	// offers no CNI network, and is ready without one. Default: false.
	HostNetwork bool
	// Access lists the users of the socket. Default: root and the agent's user.
	Access Access
	// MaxConnections bounds the open connections. Default: 256.
	MaxConnections int
	// MaxRequests bounds the requests in flight, queued ones included; requests that
	// only read records do not count. Default: 64.
	MaxRequests int
	// MaxBody bounds a request's body, in bytes. Default: 1 MiB.
	MaxBody int64
	// HeaderTimeout is the deadline of a client to send the header of a request.
	// Default: 5 s.
	HeaderTimeout time.Duration
	// ReadTimeout is the deadline of a client to send a whole request, and to
	// read each part of an answer. Default: 30 s.
	ReadTimeout time.Duration
	// RequestTimeout is the deadline of the execution of a request. Default: 5 min.
	RequestTimeout time.Duration
	// DrainTimeout is how long a stopping agent waits for requests in flight.
	// Default: 90 s, more than a plugin's deadline.
	DrainTimeout time.Duration
	// Ready lists further reasons why the agent is not ready. Default: none.
	Ready func() []string
	// Pools returns the state of the pools of allocnet-ipam, for metrics and requests. Default:
	// none, and the request is not supported.
	Pools func(context.Context) []pools.Status
	// Cluster returns the state of the pools whose networks span hosts. Default: the request is
	// not supported.
	Cluster func() []span.Status
	// Repair returns what attachments lack. Default: the request is not supported.
	Repair func() api.Repair
	// Pprof serves /debug/pprof. Default: no.
	Pprof bool
	// Metrics counts. Default: a registry of the agent's own.
	Metrics *Metrics
	// Attacher serves the attachments of an allocation. Default: the engine, if it
	// is an Attacher; else these requests are not supported.
	Attacher Attacher
	// Collect serves POST /v1/gc. Default: the engine's GC, for which an allocation
	// is live if its namespace exists.
	Collect func(ctx context.Context) (*hook.Collected, error)
	// Leaks serves GET /v1/leaks. Default: the request is not supported.
	Leaks func() *api.Leaks
	// AddDenied fills in what isolation has dropped of attachments. Default: that is not known.
	AddDenied func(ctx context.Context, all ...*hook.Allocation) error
	// Denied serves GET /v1/denied: flows that isolation has denied, and why the host tells of none. Default: the request is not supported.
	Denied func() ([]hook.DeniedFlow, error)
	// Map serves GET /v1/map. Default: the request is not supported.
	Map func(ctx context.Context) (*hostmap.Map, error)
	// Events serves GET /v1/events. Default: the request is not supported.
	Events EventLog
	// CNI serves POST /v1/cni. Default: the request is not supported.
	CNI CNI
	// Logger gets a line for each request that changes something. Default:
	// none.
	Logger hclog.Logger
}

func (c Config) withDefaults() Config {
	c.ConfDirs = cniconf.Dirs(c.ConfDirs)
	c.MaxConnections = cmp.Or(c.MaxConnections, 256)
	c.MaxRequests = cmp.Or(c.MaxRequests, 64)
	c.MaxBody = cmp.Or(c.MaxBody, 1<<20)
	c.HeaderTimeout = cmp.Or(c.HeaderTimeout, 5*time.Second)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 30*time.Second)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 5*time.Minute)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 90*time.Second)
	if c.Metrics == nil {
		c.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	c.Logger = cmp.Or(c.Logger, hclog.NewNullLogger())
	return c
}

// catalog returns the networks that the agent offers.
func (c Config) catalog() (*cniconf.Catalog, error) {
	if c.HostNetwork {
		return &cniconf.Catalog{}, nil
	}
	return cniconf.Load(c.ConfDirs...)
}

// usable tells which networks of a catalog the agent's engine can attach.
func (c Config) usable(catalog *cniconf.Catalog) cniconf.Usable {
	return hook.Config{PluginDirs: c.PluginDirs, Executor: c.Executor}.Usable(catalog)
}

// Agent serves an engine.
type Agent struct {
	config  Config
	engine  Engine
	metrics *Metrics
	gate    *gate
	limiter limiter
	log     hclog.Logger
	// followers has an element for each request that follows events. They end with
	// stopping.
	followers  chan struct{}
	stopping   context.Context
	endStreams context.CancelFunc
}

// New returns an agent for an engine. Two agents must not share a Config.Metrics.
func New(c Config, e Engine) *Agent {
	c = c.withDefaults()
	c.Metrics.registry.MustRegister(&hostCollector{engine: e, catalog: c.catalog, addDenied: c.addDenied, log: c.Logger})
	c.Metrics.registry.MustRegister(publishedCollector{netns.Published, c.Logger})
	if c.Pools != nil {
		c.Metrics.registry.MustRegister(poolCollector{c.Pools})
	}
	if c.Cluster != nil {
		c.Metrics.registry.MustRegister(clusterCollector{c.Cluster})
	}
	if c.Repair != nil {
		c.Metrics.registry.MustRegister(repairCollector{c.Repair})
	}
	if attacher, ok := e.(Attacher); ok && c.Attacher == nil {
		c.Attacher = attacher
	}
	if c.Collect == nil {
		c.Collect = func(ctx context.Context) (*hook.Collected, error) { return e.GC(ctx, hook.GCRequest{Grace: grace}) }
	}
	a := &Agent{
		config: c, engine: e, metrics: c.Metrics, gate: newGate(c.MaxRequests), limiter: newLimiter(), log: c.Logger,
		followers: make(chan struct{}, maxFollowers),
	}
	a.stopping, a.endStreams = context.WithCancel(context.Background())
	return a
}

// Serve answers requests until ctx ends, then stops; see the package documentation.
// The listeners are closed when it returns.
func (a *Agent) Serve(ctx context.Context, listeners ...net.Listener) error {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	server := a.server(work)
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { failed <- server.Serve(limitListener(l, a.config.MaxConnections)) }()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("serve: %w", err)
	}
	return errors.Join(err, a.stop(server, cancel))
}

// stop drains, then closes. Requests in flight after DrainTimeout are undone.
func (a *Agent) stop(server *http.Server, cancel context.CancelCauseFunc) error {
	idle := a.gate.close()
	a.endStreams()
	a.log.Info("stopping: completing the requests in flight")
	select {
	case <-idle:
	case <-time.After(a.config.DrainTimeout):
		a.log.Warn("undoing the requests that are still in flight", "drain_timeout", a.config.DrainTimeout)
		cancel(errdefs.New(errdefs.Unavailable, "the agent is stopping"))
		<-idle
	}
	closing, stop := context.WithTimeout(context.Background(), a.config.HeaderTimeout)
	defer stop()
	if err := server.Shutdown(closing); err != nil {
		return server.Close() // a client keeps an idle connection open
	}
	return nil
}

func (a *Agent) server(work context.Context) *http.Server {
	server := &http.Server{
		Handler:           a.handler(),
		ReadHeaderTimeout: a.config.HeaderTimeout,
		ReadTimeout:       a.config.ReadTimeout,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          a.log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		BaseContext:       func(net.Listener) context.Context { return work },
		ConnContext:       withConn,
	}
	// A connection on this host is cheap, and idle ones would count against the
	// limit.
	server.SetKeepAlivesEnabled(false)
	return server
}
