// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"context"
	"net/netip"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/isolation/filter"
	"github.com/allocnet/allocnet/state"
)

// AddDenied fills in what was dropped of attachments. Where nothing is isolated nothing is.
func AddDenied(ctx context.Context, e *operation.Env, all ...*allocation.Allocation) error {
	if inForce, err := (host{&e.Config, e.Store}).inForce(); err != nil || inForce == nil {
		return err
	}
	counts, err := e.Config.Filter.Denied(ctx)
	if err != nil {
		return err
	}
	for _, a := range all {
		for i := range a.Attachments {
			n := &a.Attachments[i]
			if c, ok := counts[filter.CountedAs(state.ContainerIDOf(a.ID, n.Interface, n.Primary))]; ok {
				denied := allocation.Denied(c)
				n.Denied = &denied
			}
		}
	}
	return nil
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
	err = h.each(ctx, func(r recordedMember) {
		ends = append(ends, HostEnd{r.allocation, r.iface, r.Network, r.Addresses, []string{r.Link, r.End}})
	})
	return ends, err
}
