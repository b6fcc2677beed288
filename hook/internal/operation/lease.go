// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package operation

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/leases"
	"github.com/allocnet/allocnet/state"
)

// HostLocal is the IPAM plugin whose leases are files of the host.
const HostLocal = "host-local"

// Lease is that of an address from a pool of host-local or allocnet-ipam.
type Lease struct {
	Address netip.Addr `json:"address"`
	// Plugin is host-local or allocnet-ipam.
	Plugin string `json:"plugin"`
	// Pool is the name of the pool of allocnet-ipam, and the network for host-local.
	Pool string `json:"pool"`
	// Block is that of allocnet-ipam. Zero: the address is reserved, or of host-local.
	Block ipam.Block `json:"block,omitzero"`
	// Since is when the lease was made. Zero: there is none.
	Since time.Time `json:"since,omitzero"`
	// Problem is why the attachment does not have the lease. Empty: it does.
	Problem string `json:"problem,omitempty"`
}

// LeasesOf looks for the leases of the addresses of an attachment.
func LeasesOf(a state.Attachment, pools []cniconf.Pool) []Lease {
	if a.Result == nil {
		return nil
	}
	result, err := onrecord.ParseResult(a.Result)
	if err != nil {
		return nil
	}
	var all []Lease
	for _, address := range onrecord.InterfaceAddresses(result, a.Interface) {
		for _, p := range pools {
			if l, has := leaseOf(a, p, address.Addr()); has {
				all = append(all, l)
			}
		}
	}
	return all
}

// leaseOf looks for the lease of an address in a pool. It returns false if the address is not one of
// the pool.
func leaseOf(a state.Attachment, p cniconf.Pool, address netip.Addr) (Lease, bool) {
	l := Lease{Address: address, Plugin: HostLocal, Pool: a.Network}
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
