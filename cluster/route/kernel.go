// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"context"
	"net/netip"
)

type kernel interface {
	open() (session, error)
	// watch calls the function for each event until the context ends. It returns when it has
	// begun. Lost events are one of the kind lost.
	watch(ctx context.Context, seen func(event), ended func()) error
}

type session interface {
	// list returns what there is. Neighbours and forwarding are those of the named device.
	list(device string) (*snapshot, error)
	lookup(netip.Addr) (hop, error)
	do(change) error
	close()
}
