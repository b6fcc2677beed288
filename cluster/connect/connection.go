// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package connect finds the store of this host's pools, and who this host is in it, from the
// blocks nomad and ipam of the configuration. It asks Nomad what is known of allocations and
// nodes. Without such blocks the store is this host's own.
package connect

import (
	"cmp"
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/allocnet/allocnet/cluster/hostid"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/filestore"
	"github.com/allocnet/allocnet/cluster/ipam/nomadstore"
	"github.com/allocnet/allocnet/cluster/rest"
	"github.com/allocnet/allocnet/internal/files"
)

// Connection is that of a host to the store of its pools, and to Nomad. The configuration is
// read when it is first needed. It may be used concurrently.
type Connection struct {
	configDir, stateDir string

	mu sync.Mutex // guards all below
	// store is nil until the configuration has been read.
	store ipam.Store
	node  func(ctx context.Context) (node, error)
	// fence is that of the block ipam.
	fence time.Duration
	// region is that of the variables. Empty: the agent's.
	region string
	// nomad is nil if the host has no Nomad.
	nomad *rest.Client
}

// New returns a connection. It does no I/O.
func New(configDir, stateDir string) *Connection {
	return &Connection{configDir: configDir, stateDir: stateDir}
}

// Open returns the store, and who this host is in it. A store of Nomad may be unavailable: the
// host is asked for first, and then not each time.
func (c *Connection) Open() (ipam.Store, ipam.Host, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := files.CheckPrivateTree(c.stateDir, "ipam"); err != nil {
		return nil, ipam.Host{}, err
	}
	if err := c.prepareLocked(); err != nil {
		return nil, ipam.Host{}, err
	}
	id, err := hostid.Make(c.dir())
	if err != nil {
		return nil, ipam.Host{}, err
	}
	host := id.Host
	n, err := c.node(context.Background()) // it has a deadline of its own
	if err != nil {
		return nil, ipam.Host{}, err
	}
	host.NodeID, host.NodeName = n.ID, n.Name
	if c.region != "" && n.Region != c.region {
		host.NodeID = "" // to the region of the pools it would be a node that is gone
	}
	return c.store, host, nil
}

// Fence returns the time of the block ipam without verification after which no new address is
// assigned; 0: the default.
func (c *Connection) Fence() (time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.prepareLocked()
	return c.fence, err
}

// dir has what belongs to no single pool.
func (c *Connection) dir() string { return filepath.Join(c.stateDir, "ipam") }

// client returns the client of Nomad; nil if the host has none.
func (c *Connection) client() (*rest.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.prepareLocked()
	return c.nomad, err
}

// prepareLocked reads the configuration. One that could not be read is read again.
func (c *Connection) prepareLocked() error {
	if c.store != nil {
		return nil
	}
	b, err := load(c.configDir)
	if err != nil {
		return err
	}
	if b.IPAM != nil {
		c.fence = b.IPAM.Fence
	}
	if b.Nomad != nil || b.hasStore() {
		if b.IPAM != nil {
			c.region = b.IPAM.Region
		}
		if c.nomad, err = cmp.Or(b.Nomad, &Nomad{}).rest(c.region); err != nil {
			return err
		}
	}
	if !b.hasStore() {
		c.store, c.node = filestore.New(filepath.Join(c.dir(), "store")), func(context.Context) (node, error) { return node{}, nil }
		return nil
	}
	c.store, c.node = nomadstore.New(c.nomad, b.IPAM.Namespace), (&nodeCache{dir: c.dir(), configured: cmp.Or(b.Nomad, &Nomad{}).NodeID, client: c.nomad}).node
	return nil
}
