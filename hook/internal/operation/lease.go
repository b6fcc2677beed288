// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package operation

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/leases"
	"github.com/allocnet/allocnet/state"
)

// HostLocal is the IPAM plugin whose leases are files of the host.
const HostLocal = "host-local"

// LeasesOf looks for the leases of the addresses of an attachment.
func LeasesOf(a state.Attachment, pools []cniconf.Pool) []allocation.Lease {
	if a.Result == nil {
		return nil
	}
	result, err := onrecord.ParseResult(a.Result)
	if err != nil {
		return nil
	}
	all := leasedByDHCP(a)
	for _, p := range a.Advertised { // by routers. How long it may use them the kernel knows.
		all = append(all, allocation.Lease{Address: p.Addr(), Plugin: "slaac", Pool: a.Network, Since: a.Updated})
	}
	for _, address := range onrecord.InterfaceAddresses(result, a.Interface) {
		for _, p := range pools {
			if l, has := leaseOf(a, p, address.Addr()); has {
				all = append(all, l)
			}
		}
	}
	return all
}

// leasedByDHCP returns the leases of DHCP of an attachment.
func leasedByDHCP(a state.Attachment) (all []allocation.Lease) {
	for _, l := range a.Leased() {
		if l.Requested {
			continue
		}
		told := allocation.Lease{Address: l.Address.Addr(), Plugin: "dhcp", Pool: a.Network, Since: l.Acquired, Expires: l.Expires()}
		if l.Lost {
			told.Problem = "it has ended, and no DHCP server has given one since"
		}
		all = append(all, told)
	}
	return all
}

// leaseOf looks for the lease of an address in a pool. It returns false if the address is not one of
// the pool.
func leaseOf(a state.Attachment, p cniconf.Pool, address netip.Addr) (allocation.Lease, bool) {
	l := allocation.Lease{Address: address, Plugin: HostLocal, Pool: a.Network}
	if p.Shared != nil {
		l.Plugin, l.Pool = "allocnet-ipam", p.Shared.Pool
		if b, ok := p.Shared.BlockOf(address); ok && !p.Shared.IsReserved(address) {
			l.Block = b
		}
	}
	found, err := leases.Read(p.Leases, address.String())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.Problem = "there is no lease: another attachment may get the address"
		return l, slices.ContainsFunc(p.Ranges(), func(r cniconf.AddressRange) bool { return r.Subnet.IsValid() && r.Subnet.Contains(address) })
	case err != nil:
		l.Problem = err.Error()
	case found.ID != a.ContainerID || found.Interface != a.Interface && found.Interface != "":
		l.Since, l.Problem = found.Since, fmt.Sprintf("container %q, interface %q has the lease", found.ID, found.Interface)
	default:
		l.Since = found.Since
	}
	return l, true
}
