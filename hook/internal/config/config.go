// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package config has the configuration of the engine: where it finds and keeps things, the seams to the host, to plugins and to
// observers, what executes a network, and which keys keep a network from being attached.
package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/cache"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/resolvconf"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// Config says where a Hook finds and keeps things. The zero value is usable:
// every field has a default.
type Config struct {
	// ConfDirs hold the network configurations; the first that has a name wins.
	// Default: cniconf.DefaultDirs.
	ConfDirs []string
	// Catalog returns the networks that can be attached now. Default: those of ConfDirs, as
	// they are on disk.
	Catalog func() (*cniconf.Catalog, error)
	// PluginDirs are searched for CNI plugins. Default: CNI_PATH, else
	// cniconf.DefaultPluginDirs.
	PluginDirs []string
	// StateDir holds the records. Default: state.DefaultDir.
	StateDir string
	// CacheDir is libcni's cache, which is also the fallback when the records
	// are lost. Default: /var/lib/cni.
	CacheDir string
	// NetnsDir is where namespaces are pinned that Setup makes itself.
	// Default: netns.DefaultDir.
	NetnsDir string
	// ResolvConfDir is where the resolv.conf files of the namespaces are written that
	// Setup makes itself, each in a directory with the namespace's name. Default:
	// resolvconf.DefaultDir.
	ResolvConfDir string
	// HostResolvConf are files with the host's name servers, for namespaces whose
	// networks have none: the first with servers that other namespaces can reach is used.
	// Default: /etc/resolv.conf, then that of systemd-resolved.
	HostResolvConf []string
	// Executor is ExecutorAuto or ExecutorPlugins. Default: ExecutorAuto.
	Executor string
	// InProcess executes networks in this process. Default: that of package inprocess,
	// and none if Exec is set.
	InProcess InProcess
	// Connect is for the pools of allocnet-ipam that are executed in process. Default: the
	// program allocnet-ipam is executed where the store of a pool is needed.
	Connect Connect
	// Exec finds and runs CNI plugins. Default: they run as processes, each in a
	// process group of its own, which is killed at the deadline of the call.
	Exec invoke.Exec
	// Namespaces makes and opens the namespaces of allocations. Default: those of the
	// kernel, which needs root.
	Namespaces kernel.Namespaces
	// Host is the network namespace in which plugins make bridges and map ports.
	// Default: that of this process.
	Host kernel.Host
	// CallTimeout is the deadline of one plugin call; a plugin that exceeds
	// it is killed with its process group. Default: 60 s.
	CallTimeout time.Duration
	// PolicyFile holds the rules for all networks of the host. Default:
	// policy.DefaultFile; a file that does not exist has none.
	PolicyFile string
	// IsolationFile has the rules of isolation. Default: isolation.DefaultFile; a file that does not exist has none.
	IsolationFile string
	// Filter has the host keep attachments apart. Default: filter.Kernel.
	Filter Filter
	// OwnerGone tells, by Request.Owner, whether what an allocation was made for
	// is gone although its namespace lives; an error is that it is not known. GC
	// asks. Default: namespaces alone decide.
	OwnerGone func(ctx context.Context, owner string) (bool, error)
	// Cleaner does forced cleanup. Default: that of package cleanup. NoCleaner turns
	// it off: then what a DEL leaves stays recorded as pending.
	Cleaner Cleaner
	// Observers are told of every operation: metrics, events. Default: none.
	Observers []Observer
	// Logger gets one line for each step that matters. Default: none.
	Logger hclog.Logger
	// ChangeFile makes a change of a resolv.conf. Default: as it is.
	ChangeFile func(op, path string, change func() error) error
	// AnnounceAgain announces addresses of an interface some times more (kernel.AnnounceAgain), while no caller waits. Default: this process
	// does, as long as it lives.
	AnnounceAgain func(netns, iface string, addresses []netip.Addr)
	// Pause waits between attempts, and between looks. Default: for the time, or until the context ends.
	Pause func(ctx context.Context, d time.Duration) error
}

// WithDefaults returns the configuration with the defaults of what it lacks.
func (c Config) WithDefaults() Config {
	c.ConfDirs = cniconf.Dirs(c.ConfDirs)
	if c.Catalog == nil {
		dirs := c.ConfDirs
		c.Catalog = func() (*cniconf.Catalog, error) { return cniconf.Load(dirs...) }
	}
	c.StateDir = cmp.Or(c.StateDir, state.DefaultDir)
	c.CacheDir = cmp.Or(c.CacheDir, "/var/lib/cni")
	c.NetnsDir = cmp.Or(c.NetnsDir, netns.DefaultDir)
	c.ResolvConfDir = cmp.Or(c.ResolvConfDir, resolvconf.DefaultDir)
	if len(c.HostResolvConf) == 0 {
		c.HostResolvConf = []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"}
	}
	c.PolicyFile = cmp.Or(c.PolicyFile, policy.DefaultFile)
	c.IsolationFile = cmp.Or(c.IsolationFile, isolation.DefaultFile)
	c.Filter = cmp.Or[Filter](c.Filter, filter.Kernel{})
	c.CallTimeout = cmp.Or(c.CallTimeout, time.Minute)
	c.Executor = cmp.Or(c.Executor, ExecutorAuto)
	if c.InProcess == nil && c.Exec == nil {
		c.InProcess = executor{c.Connect, c.StateDir}
	}
	c.Namespaces = cmp.Or(c.Namespaces, kernel.NewNamespaces())
	c.Host = cmp.Or(c.Host, kernel.NewHost())
	if c.Pause == nil {
		c.Pause = Sleep
	}
	if c.AnnounceAgain == nil {
		c.AnnounceAgain = func(netns, iface string, addresses []netip.Addr) {
			go kernel.AnnounceAgain(context.Background(), netns, iface, addresses) //nolint:errcheck // the allocation may be gone by then
		}
	}
	c.PluginDirs = cniconf.PluginDirs(c.PluginDirs)
	c.Logger = cmp.Or(c.Logger, hclog.NewNullLogger())
	c.Cleaner = cmp.Or[Cleaner](c.Cleaner, &cleanup.Cleaner{CacheDir: c.CacheDir, Logger: c.Logger})
	return c
}

// OpenNamespace opens the namespace on record; the error is netns.ErrMissing if it is gone.
func (c Config) OpenNamespace(a state.Allocation) (kernel.Namespace, error) {
	return state.OpenNamespace(a, c.Namespaces.Open)
}

// Cache is libcni's cache.
func (c Config) Cache() cache.Dir { return cache.Dir(c.CacheDir) }

// Sleep pauses for d and returns early, with the cause, when ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ResolvConf is the resolv.conf of a namespace that Setup makes.
func (c Config) ResolvConf(id string) resolvconf.File {
	return resolvconf.File{Dir: c.ResolvConfDir, Name: id, Intercept: c.ChangeFile}
}

// Cleaner removes from the host what a DEL left behind. Setup and Teardown
// call it when a DEL failed and whenever the namespace is missing, because
// plugins then report success and leave their rules.
type Cleaner interface {
	// Clean removes what plugins left of the allocations, with one scan of the host
	// for all. It returns one error for each allocation, nil when nothing is left;
	// calling again is safe.
	Clean(ctx context.Context, leftovers []state.Leftover) []error
	// Covers tells whether Clean removes all that the plugins of an attachment
	// leave outside of its namespace: then DEL is not needed after a reboot.
	Covers(a state.Attachment) bool
	// Left is what a plugin of an attachment has left whose DEL reports success; nil: nothing.
	Left(ctx context.Context, a state.Attachment, plugin string) error
}

// NoCleaner turns forced cleanup off.
var NoCleaner Cleaner = noCleaner{}

type noCleaner struct{}

// Clean removes nothing: an attachment is gone if its DEL succeeded.
func (noCleaner) Clean(_ context.Context, leftovers []state.Leftover) []error {
	errs := make([]error, len(leftovers))
	for i, l := range leftovers {
		for _, s := range l.Suspects {
			errs[i] = errors.Join(errs[i], s.DelErr)
		}
	}
	return errs
}

// Covers is false: every DEL is needed.
func (noCleaner) Covers(state.Attachment) bool { return false }

// Left is nil: a DEL that reports success has succeeded.
func (noCleaner) Left(context.Context, state.Attachment, string) error { return nil }

// Force has the cleaner remove what allocations left, and reports it.
func (c Config) Force(ctx context.Context, reason Reason, leftovers []state.Leftover) []error {
	started := time.Now()
	errs := c.Cleaner.Clean(ctx, leftovers)
	for i, l := range leftovers {
		for _, s := range l.Suspects {
			c.Report(NewObservation(OpCleanup, reason, l.Allocation, s.Attachment, 1, started, errs[i]))
		}
	}
	return errs
}

// Resolve finds networks, all of whose plugins are installed. Attaching one of allocnet-cni would wait for the lock of the
// allocation for ever.
func (c Config) Resolve(names []string) ([]*cniconf.Network, error) {
	catalog, err := c.Catalog()
	if err != nil {
		return nil, err
	}
	networks, err := c.Usable(catalog).LookupAll(names)
	if err != nil {
		return nil, err
	}
	for _, n := range networks {
		if n.IsOwn() {
			return nil, &plan.RequestError{Field: "network", Value: n.Name, Reason: "is made by " + cniconf.OwnPlugin + " itself: name one of those that it attaches"}
		}
	}
	return networks, nil
}

// PublishedAddresses returns the addresses that networks publish ports on, with the file of the network. A network whose rules cannot
// be read is left out: nothing is attached to it, so no port is published there.
func (c Config) PublishedAddresses() (map[netip.Addr]string, error) {
	catalog, err := c.Catalog()
	if err != nil {
		return nil, err
	}
	found := map[netip.Addr]string{}
	for _, n := range catalog.Networks {
		rules, err := policy.Of(n)
		if err != nil || rules.PublishAddress == nil {
			continue
		}
		for _, address := range rules.PublishAddress.Addresses.Addresses() {
			found[address] = n.Path
		}
	}
	return found, nil
}

// FileOf returns the file of a network for messages.
func (c Config) FileOf(network string) string {
	catalog, err := c.Catalog()
	if err == nil {
		if n, err := catalog.Lookup(network); err == nil {
			return n.Path
		}
	}
	return fmt.Sprintf("the configuration of network %q", network)
}
