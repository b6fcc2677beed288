// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package nomadclient is a caller that makes the CNI calls of a Nomad client: of Nomad 1.6.2,
// and of later versions, which are not open source and which no test runs. A comment names the
// version and the lines that a behaviour is from. e2e/nomadclient compares the calls of the caller with
// those of the real Nomad 1.6.2.
package nomadclient

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/nomad"
)

// Config is the configuration of a client.
type Config struct {
	// Version is that of Nomad.
	Version nomad.Version
	// PluginDirs is cni_path, and ConfDir cni_config_dir.
	PluginDirs []string
	ConfDir    string
	// AllocDir has the directories of the allocations.
	AllocDir string
	// Pause is called between two attempts of an ADD, with 1 to 2 s.
	Pause func(time.Duration)
}

// Client is a Nomad client with its allocations. It may be used concurrently.
type Client struct {
	config Config
	// calls has one ADD or DEL at a time on the whole host (v1.6.2 networking.go).
	calls sync.Mutex
	// checks is whether a restart calls CHECK.
	checks bool

	mu      sync.Mutex // guards all below
	running map[string]*Allocation
	port    int // the last that the scheduler has chosen
}

// New returns a client that has been started for the first time.
func New(c Config) *Client {
	return &Client{config: c, checks: callsCheck(c), running: map[string]*Allocation{}, port: 20000}
}

// Run runs the allocations of a group, whose networks are set up one after the other.
func (c *Client) Run(g Group) ([]*Allocation, error) {
	allocations := make([]*Allocation, max(1, g.Count))
	var group errgroup.Group
	for i := range allocations {
		group.Go(func() (err error) {
			allocations[i], err = c.run(g, i)
			return err
		})
	}
	return allocations, group.Wait()
}

func (c *Client) run(g Group, index int) (*Allocation, error) {
	a := newAllocation(g, index)
	if err := admit(c.config.Version, g); err != nil {
		return a, err
	}
	c.assignPorts(a)
	// The directory is made before the network (v2.0.5 alloc_runner_hooks.go:111-146).
	if err := os.MkdirAll(filepath.Join(c.config.AllocDir, a.ID, "alloc"), 0o777); err != nil {
		return a, err
	}
	return a, c.start(a)
}

// assignPorts does what the scheduler does with the ports of the first block: static ones come first.
func (c *Client) assignPorts(a *Allocation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.Ports = slices.Clone(a.Group.Networks[0].Ports)
	slices.SortStableFunc(a.Ports, func(p, q Port) int { return cmp.Compare(min(q.Static, 1), min(p.Static, 1)) })
	for i := range a.Ports {
		port := &a.Ports[i]
		if port.Static == 0 {
			c.port++
			port.Static = c.port
		}
		port.To = cmp.Or(port.To, port.Static)
	}
}

// start reads the conflist and sets up the network. If that fails, the tasks have the event "Setup
// Failure", and the network is torn down once (v1.6.2 network_hook.go, Postrun). An allocation whose
// conflist is gone is failed without a DEL (v2.0.5 client.go:1390-1395).
func (c *Client) start(a *Allocation) (err error) {
	if a.net, err = newConfigurator(c.config, a.Group); err != nil {
		c.forget(a)
		return err
	}
	if err := c.prerun(a); err != nil {
		c.Stop(a)
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[a.ID] = a
	return nil
}

func (c *Client) forget(a *Allocation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, a.ID)
}

// prerun makes the namespace and sets up the network, as after a reboot, before which no DEL was
// called. If the namespace exists, the client has restarted: a network that fails CHECK is set up
// again in a new namespace, with the same container ID and without a DEL (v1.9.5
// network_hook.go:160-168). If CHECK is not called, nothing is.
func (c *Client) prerun(a *Allocation) error {
	a.TaskStatus = nil
	created, err := a.createNamespace()
	if err != nil {
		return err
	}
	if !created && c.checks && a.net.check(a) != nil {
		if err := a.destroyNamespace(); err != nil {
			return err
		}
		if created, err = a.createNamespace(); err != nil {
			return err
		}
	}
	if created {
		return c.setup(a)
	}
	if c.config.Version.Has(ConnectOnCNI) {
		a.TaskStatus = a.Status
	}
	return nil
}

func (c *Client) setup(a *Allocation) error {
	c.calls.Lock()
	defer c.calls.Unlock()
	status, err := a.net.setup(a)
	if err != nil {
		return fmt.Errorf("failed to configure networking for alloc: %w", err)
	}
	a.Status, a.TaskStatus = status, status
	return nil
}

// Stop ends an allocation: it tears down its network, and destroys the namespace whether that failed
// or not. It is never repeated (v2.0.5 network_hook.go:212-223).
func (c *Client) Stop(a *Allocation) {
	c.calls.Lock()
	a.Leaked = a.net.teardown(a)
	c.calls.Unlock()
	a.Leaked = errors.Join(a.Leaked, a.destroyNamespace())
	c.forget(a)
}

// Update gives the job of a running allocation another group, and returns the allocation that has it then:
// the same one, if Nomad updates it in place. Otherwise the other one starts before the first stops.
func (c *Client) Update(a *Allocation, g Group) (*Allocation, error) {
	if !replaces(c.config.Version, a.Group, g) {
		a.Group = g
		return a, nil
	}
	next, err := c.run(g, a.Index)
	c.Stop(a)
	return next, err
}

// replaces reports whether a change of the networks or of meta replaces the allocation.
func replaces(version nomad.Version, before, after Group) bool {
	seen := func(networks []Network) []Network {
		networks = slices.Clone(networks)
		for i := range networks {
			if !version.Has(argumentsReplace) {
				networks[i].Args = nil
			}
		}
		return networks
	}
	return !maps.Equal(before.Meta, after.Meta) || !reflect.DeepEqual(seen(before.Networks), seen(after.Networks))
}

// Restart restarts the client: it restores its allocations, each from the files as they are now. No
// call is made before, and the tasks continue to run. After a reboot of the host it is the same.
func (c *Client) Restart() error {
	c.checks = callsCheck(c.config)
	c.mu.Lock()
	running := slices.Collect(maps.Values(c.running))
	c.mu.Unlock()
	var group errgroup.Group
	for _, a := range running {
		group.Go(func() error { return c.start(a) })
	}
	return group.Wait()
}
