// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"fmt"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/resolvconf"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// Names of the implementations that New knows.
const (
	// CNI attaches allocations to CNI networks.
	CNI = "cni"
	// NoOp serves allocations that use the host's network.
	NoOp = "noop"
)

// Hook is what an orchestrator calls around the life of an allocation.
type Hook interface {
	// Setup attaches the allocation as the request says. Repeated with the
	// same request in the same namespace it returns the existing allocation; with another
	// request it fails with ErrConflict. When the namespace of an earlier
	// Setup is gone its attachments are torn down first.
	Setup(ctx context.Context, r Request) (*Allocation, error)

	// Teardown removes every attachment of the allocation. An unknown
	// allocation, a missing namespace and a second call are not errors.
	Teardown(ctx context.Context, id string) error

	// Check tells for each attachment whether it still is as it was set up.
	// The error joins those of the attachments that are not; an allocation
	// that is not set up is state.ErrNotFound.
	Check(ctx context.Context, id string) ([]Checked, error)

	// Status returns the allocation as recorded, without running a plugin.
	// An allocation that is not set up is state.ErrNotFound.
	Status(ctx context.Context, id string) (*Allocation, error)

	// GC tears down the recorded allocations whose namespace is gone, runs CNI's GC
	// on the networks of the CNI configuration directories, and removes leaks by
	// force. Where it is not known which allocations live, or which namespaces, the
	// result is nil, and nothing has been removed.
	GC(ctx context.Context, r GCRequest) (*Collected, error)
}

// Config says where a Hook finds and keeps things. The zero value is usable:
// every field has a default.
type Config struct {
	// ConfDirs hold the network configurations; the first that has a name wins.
	// Default: cniconf.DefaultDir.
	ConfDirs []string
	// Networks are found before those of ConfDirs, and make them optional. Default:
	// none.
	Networks []*cniconf.Network
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
	// changeFile makes a change of a resolv.conf; nil: as it is. Tests replace it.
	changeFile func(op, path string, change func() error) error
	// pause waits between attempts, and looks. Default: sleep. Tests replace it.
	pause func(ctx context.Context, d time.Duration) error
}

// New returns the implementation of the given name: CNI or NoOp. NoOp uses Host and
// Logger of the configuration; it keeps no records and runs no plugins.
func New(name string, c Config) (Hook, error) {
	switch name {
	case CNI:
		return NewEngine(c)
	case NoOp:
		c = c.withDefaults()
		c.Host.FilterBridges(c.Logger)
		return noOp{}, nil
	}
	return nil, fmt.Errorf("unknown hook %q: want %q or %q", name, CNI, NoOp)
}

func (c Config) withDefaults() Config {
	if len(c.ConfDirs) == 0 {
		c.ConfDirs = []string{cniconf.DefaultDir}
	}
	setDefault(&c.StateDir, state.DefaultDir)
	setDefault(&c.CacheDir, "/var/lib/cni")
	setDefault(&c.NetnsDir, netns.DefaultDir)
	setDefault(&c.ResolvConfDir, resolvconf.DefaultDir)
	if len(c.HostResolvConf) == 0 {
		c.HostResolvConf = []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"}
	}
	setDefault(&c.PolicyFile, policy.DefaultFile)
	setDefault(&c.CallTimeout, time.Minute)
	setDefault(&c.Executor, ExecutorAuto)
	if c.InProcess == nil && c.Exec == nil {
		c.InProcess = executor{c.Connect}
	}
	if c.Namespaces == nil {
		c.Namespaces = kernel.NewNamespaces()
	}
	if c.Host == nil {
		c.Host = kernel.NewHost()
	}
	if c.pause == nil {
		c.pause = sleep
	}
	c.PluginDirs = cniconf.PluginDirs(c.PluginDirs)
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.Cleaner == nil {
		c.Cleaner = &cleanup.Cleaner{CacheDir: c.CacheDir, Logger: c.Logger}
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
