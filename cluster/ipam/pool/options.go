// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"context"
	"net/netip"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/reserved"
)

// Options are what a Pool needs.
type Options struct {
	// Config is required.
	Config *ipam.Config
	// Open returns the store, and who this host is. It is required, and called whenever the store
	// is needed, which is not to add or remove addresses of blocks that the host has.
	Open func() (ipam.Store, ipam.Host, error)
	// Holder is asked whether an address or a block of another host can be taken over. Nil: it
	// cannot.
	Holder Holder
	// Probe asks the network whether another host has an address before it is given out. Nil:
	// it is not asked.
	Probe func(ctx context.Context, address netip.Addr) (taken bool, err error)
	// Grace is how long a node must be gone before others take what it had. 0: an hour.
	Grace time.Duration
	// Fence returns for how long new addresses are given out without having verified that the
	// blocks are still this host's; 0 is 20 h. It is called to verify, and recorded for all
	// processes. Nil: it stays as it was recorded last.
	Fence func() (time.Duration, error)
	// Now is the time. Nil: time.Now.
	Now func() time.Time
	// Logger is optional.
	Logger hclog.Logger
}

// Holder says what Nomad knows of those who hold addresses and blocks.
type Holder = reserved.Holder
