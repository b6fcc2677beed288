// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"net/netip"
	"strconv"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	"github.com/allocnet/allocnet/internal/acd"
	"github.com/allocnet/allocnet/internal/files"
)

// Connection is that of this host to the store of a pool, and to Nomad. None of its methods is
// called to assign or free an address of a block that the host has.
type Connection interface {
	pool.Holder
	// Open returns the store, and who this host is in it.
	Open() (ipam.Store, ipam.Host, error)
	// Fence returns the time without verification after which no new address is assigned; 0: the
	// default.
	Fence() (time.Duration, error)
	// Index returns the number of an allocation in its group.
	Index(ctx context.Context, namespace, allocation string) (int, error)
}

// call is a call with its pool.
type call struct {
	Call
	conf       *ipam.Config
	pool       *pool.Pool
	connection Connection
}

// open requires that no other user can change the records of the pool. It does no other I/O.
func (p *Plugin) open(c Call) (*call, error) {
	conf, err := parsePool(c.Config)
	if err != nil {
		return nil, err
	}
	if err := files.CheckPrivateTree(conf.StateDir, "ipam", "pools", conf.Pool); err != nil {
		return nil, cniError(err)
	}
	connection := p.Connect(conf)
	options := pool.Options{Config: conf, Open: connection.Open, Fence: connection.Fence, Holder: connection}
	if conf.Probe != "" {
		options.Probe = func(ctx context.Context, address netip.Addr) (bool, error) {
			return acd.Probe(ctx, conf.Probe, address)
		}
	}
	return &call{c, conf, pool.New(options), connection}, nil
}

// setKey sets the key of a sticky address where the job passes none: the index of the
// allocation, which Nomad does not pass to plugins.
func (c *call) setKey(ctx context.Context, job *ipam.Job) error {
	if !c.conf.Sticky || job.Key != "" || job.Allocation == "" {
		return nil
	}
	index, err := c.connection.Index(ctx, job.Namespace, job.Allocation)
	job.Key = strconv.Itoa(index)
	return err
}
