// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/allocnet/allocnet/internal/acd"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/wake"
)

// Announce tells the neighbours of an interface of a namespace which addresses it has.
func (ownHost) Announce(ns Namespace, iface string, addresses []netip.Addr) error {
	inside, ok := ns.(*netns.Namespace)
	if !ok {
		return fmt.Errorf("announce addresses: a namespace of type %T", ns)
	}
	return inside.Do(func() error { return acd.Announce(iface, addresses) })
}

const (
	// announcements follow the first one, of which a packet may be lost, each after a pause.
	announcements = 2
	pause         = time.Second
)

// AnnounceAgain announces addresses some times more, as long as the namespace at the path has an interface of the name with them.
func AnnounceAgain(ctx context.Context, path, iface string, addresses []netip.Addr) error {
	for range announcements {
		if !wake.After(ctx, pause) {
			return context.Cause(ctx)
		}
		ns, err := netns.Open(path)
		if err != nil {
			return err
		}
		err = errors.Join(ns.Do(func() error { return acd.Announce(iface, addresses) }), ns.Close())
		if err != nil {
			return err
		}
	}
	return nil
}
