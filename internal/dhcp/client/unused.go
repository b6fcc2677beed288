// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/allocnet/allocnet/internal/acd"
	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// glance is how long the link is asked for an address of IPv4 that the server gives no other client: as long as it takes hosts of a link to
// answer. The second that RFC 5227 has would be most of an attachment's time.
const glance = 300 * time.Millisecond

// InUseError is that another interface of the link has an address that a server gives.
type InUseError struct {
	Address, Server netip.Addr
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("the address %s that %s gives has another interface of the link already: want a range of the server that others leave alone", e.Address, e.Server)
}

// Kind is that of package errdefs.
func (*InUseError) Kind() errdefs.Kind { return errdefs.Unavailable }

// asking is how a link is asked whether another of its interfaces has an address.
type asking func(ctx context.Context, address netip.Addr, wait time.Duration) (contested bool, err error)

// askingBy asks by an interface, in whose namespace inside runs a function.
func askingBy(iface string, inside func(do func() error) error) asking {
	return func(ctx context.Context, address netip.Addr, wait time.Duration) (contested bool, err error) {
		err = inside(func() (err error) {
			contested, err = acd.ContestedWithin(ctx, iface, address, wait)
			return err
		})
		return contested, err
	}
}

// secure requests what was offered, and makes sure that no other interface of the link has the address. If one has it, the server is told, so
// that it gives another one. That of a shared client may be with another interface by right: then the server is told nothing. If none has it,
// the other one may just have released it, so the server is asked once more: it does not answer the address itself, which none has yet.
func (c *client) secure(ctx context.Context, offer dhcp.Lease, request func(context.Context, dhcp.Lease) (dhcp.Lease, error), record, decline func(dhcp.Lease) error) (dhcp.Lease, error) {
	l, err := request(ctx, offer)
	if err != nil {
		return l, err
	}
	wait := acd.Wait
	if l.Family() == dhcp.IPv4 && !c.Shared {
		wait = glance
	}
	contested, err := c.contested(ctx, l.Address.Addr(), wait)
	switch {
	case err != nil:
		return l, err
	case contested:
		return l, errors.Join(&InUseError{l.Address.Addr(), l.Server}, c.reject(l, record, decline))
	case c.Shared:
		return request(ctx, offer)
	}
	return l, nil
}

// reject has the record say that a lease is declined, and then tells the server.
func (c *client) reject(l dhcp.Lease, record, decline func(dhcp.Lease) error) error {
	if c.Shared {
		return nil
	}
	l.Lost, l.Declined = true, true
	if err := record(l); err != nil {
		return err
	}
	return decline(l)
}
