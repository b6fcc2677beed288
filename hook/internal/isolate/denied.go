// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"context"
	"errors"
	"net/netip"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
	"github.com/allocnet/allocnet/state"
)

// AddDenied fills in what was dropped of attachments. Where nothing is isolated nothing is.
func AddDenied(ctx context.Context, e *operation.Env, all ...*allocation.Allocation) error {
	h := host{&e.Config, e.Store}
	inForce, err := h.inForce()
	if err != nil || inForce == nil {
		return err
	}
	ofHost, err := e.Config.Filter.Denied(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, a := range all {
		inside, err := h.deniedInside(ctx, inForce.Levels, a)
		failed = errors.Join(failed, err)
		for i := range a.Attachments {
			n := &a.Attachments[i]
			id := filter.CountedAs(state.ContainerIDOf(a.ID, n.Interface, n.Primary))
			for _, counts := range []map[string]isolation.Denied{ofHost, inside} {
				if c, ok := counts[id]; ok {
					denied := allocation.Denied(c)
					n.Denied = &denied
				}
			}
		}
	}
	return failed
}

// HostEnd is an attachment, and where its packets pass the host.
type HostEnd struct {
	Allocation, Interface, Network string
	Addresses                      []netip.Addr
	// Links are the interface of the host by which its packets are routed, and its end of the veth pair.
	Links []string
}

// Ends returns the attachments of which the host knows the ends, as they are on record. With an error, some of them are missing.
func Ends(ctx context.Context, e *operation.Env) (ends []HostEnd, err error) {
	h := host{&e.Config, e.Store}
	err = h.each(ctx, func(r *recordedMember) {
		if !r.Inside {
			ends = append(ends, HostEnd{r.allocation.ID, r.iface, r.Network, r.Addresses, []string{r.Link, r.End}})
		}
	})
	return ends, err
}
