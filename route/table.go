// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"

	"github.com/allocnet/allocnet/ipam"
)

// Protocol is the number of our routes' protocol: what other programs call rtm_protocol, and
// iproute2 looks up in rt_protos.
const Protocol = 172

// Options are those of a table.
type Options struct {
	// Dir is where devices and routes are on record before they are made, so that what a killed
	// process leaves is found. Required.
	Dir string
	// Instance is this host's: the MACs of its devices are derived from it. Required.
	Instance string
	// Logger gets what changes. Nil: none.
	Logger *slog.Logger
}

// Table keeps the routes of the network namespace of its caller. Its methods may be called at the
// same time.
type Table struct {
	o Options
}

// New returns a table. It does nothing yet.
func New(o Options) *Table { return &Table{o: o} }

var errMissing = errors.New("not there yet")

// Device makes or repairs the VXLAN device of a pool, and returns its MAC and MTU. In the mode routed
// there is no device: it returns no MAC, and the MTU of the interface that has the address.
// Call it before Apply, and again when local has changed.
func (t *Table) Device(p Pool, local ipam.Endpoint) (mac string, mtu int, err error) {
	return "", 0, errMissing
}

// Apply makes the kernel's tables those of the targets. What is right is not touched.
// The report is that of what could be done if there is an error.
func (t *Table) Apply(p Pool, own []netip.Prefix, targets []Target) (Report, error) {
	return Report{}, errMissing
}

// Remove removes all that the table has of a pool, by what is on record.
func (t *Table) Remove(pool string) error { return errMissing }

// RemoveAll removes all that is ours, on record or not.
func (t *Table) RemoveAll() error { return errMissing }

// Changes returns a channel that gets a value when something has changed that Apply should look
// at: our routes, neighbours and devices, addresses and routes that are in their way, and the
// interfaces that they use. It is closed with the context.
func (t *Table) Changes(ctx context.Context) (<-chan struct{}, error) { return nil, errMissing }
