// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// acceptRA has an attached interface accept IPv6 router advertisements or ignore them. They would give it addresses and a default
// route beside those of its network's plugins.
var acceptRA = step{Prepared: presetAcceptRA, Added: setAcceptRA, Awaited: awaitRA, Lacks: lackingAcceptRA}

// presetAcceptRA sets what interfaces do with router advertisements that arrive before
// setAcceptRA. In a namespace of another runtime, interfaces that others make count on
// the setting as it is.
func presetAcceptRA(w *Work, added []state.Attachment) error {
	if !w.Record.Allocation.NetnsOwned {
		return nil
	}
	ns, err := w.Namespace()
	if err != nil {
		return err
	}
	// Only an interface that accepts them when it is set up asks for one.
	accept := slices.ContainsFunc(added, func(a state.Attachment) bool { return a.AcceptRA != nil && *a.AcceptRA })
	return ns.SetAcceptRA(netns.NewInterfaces, accept)
}

func setAcceptRA(w *Work, a *state.Attachment) error {
	if a.AcceptRA == nil {
		return nil
	}
	ns, err := w.Namespace()
	if err != nil {
		return err
	}
	return ns.SetAcceptRA(a.Interface, *a.AcceptRA)
}

// advertisedWithin is how long an address is waited for, as long as for a DHCP server, and advertisedEvery how long until the next look.
const (
	advertisedWithin = 10 * time.Second
	advertisedEvery  = 100 * time.Millisecond
)

// awaitRA waits until router advertisements have given the interface an address, which no other interface of the link has.
func awaitRA(ctx context.Context, w *Work, a *state.Attachment) error {
	if !a.AwaitRA {
		return nil
	}
	ns, err := w.Namespace()
	if err != nil {
		return err
	}
	over := time.After(advertisedWithin)
	for {
		present, err := ns.Interfaces()
		if err != nil {
			return err
		}
		if at := netns.Index(present, a.Interface); at >= 0 && len(present[at].Advertised) > 0 {
			a.Advertised = present[at].Advertised
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over:
			return errdefs.As(errdefs.Unavailable, fmt.Errorf("no router has given it an IPv6 address within %s: want one on the link that advertises a prefix of 64 bits for addresses, or no \"awaitRA\"", advertisedWithin))
		case <-time.After(advertisedEvery):
		}
	}
}

// lackingAcceptRA looks at what the interface does with them, not at what they gave it.
func lackingAcceptRA(_ context.Context, w *Work, a state.Attachment) ([]Lack, error) {
	if a.AcceptRA == nil {
		return nil, nil
	}
	ns, err := w.Namespace()
	if err != nil {
		return nil, err
	}
	is, err := ns.AcceptsRA(a.Interface, *a.AcceptRA)
	if err != nil || is {
		return nil, err
	}
	what := fmt.Sprintf("%s has to ignore IPv6 router advertisements", a.Interface)
	if *a.AcceptRA {
		what = fmt.Sprintf("%s has to accept IPv6 router advertisements", a.Interface)
	}
	return []Lack{{what, func() error { return ns.RestoreAcceptRA(a.Interface, *a.AcceptRA) }}}, nil
}
