// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"context"
	"net"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/state"
)

// Advertised has the host know the addresses that router advertisements have given attachments of an allocation.
func Advertised(ctx context.Context, o *operation.Operation, attachments []state.Attachment) error {
	if !slices.ContainsFunc(attachments, func(a state.Attachment) bool { return len(a.Advertised) > 0 }) {
		return nil
	}
	h := host{o.Config, o.Store}
	if inForce, err := h.inForce(); err != nil || inForce == nil {
		return err
	}
	return h.apply(ctx)
}

// ownAdvertised returns those of the addresses by router advertisements that no other MAC makes (RFC 4291, appendix A). The others may be
// ones that a task has added: it would be allowed to send from any address.
func ownAdvertised(a state.Attachment, mac string) (own []netip.Addr) {
	m, err := net.ParseMAC(mac)
	if err != nil || len(m) != 6 {
		return nil
	}
	made := [8]byte{m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]}
	for _, p := range a.Advertised {
		if bytes := p.Addr().As16(); [8]byte(bytes[8:]) == made {
			own = append(own, p.Addr())
		}
	}
	return own
}
