// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"fmt"
	"net/netip"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
)

// assigned refuses addresses of the host.
var assigned = step{Result: checkAssigned}

// checkAssigned refuses a result with an address that the host itself has: IPAM plugins know the addresses that they assign,
// and not those of the host, which may be in the same range. What answers for it on the link would be chance.
func checkAssigned(w *Work, c Call) error {
	result, err := onrecord.ParseResult(c.Attachment.Result)
	if err != nil {
		return err
	}
	var own []netip.Addr
	for _, address := range onrecord.Addresses(result) {
		// Each namespace has its own loopback addresses, and each link its own link-local ones.
		if ip := address.Addr().Unmap(); !ip.IsLoopback() && (ip.Is4() || !ip.IsLinkLocalUnicast()) {
			own = append(own, ip)
		}
	}
	if len(own) == 0 {
		return nil
	}
	held, link, err := w.Host.Holder(own)
	if err != nil || link == "" {
		return err
	}
	return fmt.Errorf("its IPAM plugin has assigned %s, which is an address of this host, on %s: leave it out of the range in %s (rangeStart, rangeEnd, or exclude of allocnet-ipam)",
		held, link, w.FileOf(c.Attachment.Network))
}
