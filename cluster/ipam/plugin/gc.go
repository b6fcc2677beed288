// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/local"
)

// collectedAfter is the least age of a lease that GC frees. The runtime lists the valid
// attachments of one network. Another that uses the pool may just be adding one, whose address
// is in no namespace yet.
const collectedAfter = time.Minute

// GC frees the addresses of attachments that are not valid any more. Those that a network
// namespace has are kept: a lease does not tell its network, and the runtime does not list the
// attachments of other networks that use the pool. So are those that are made meanwhile.
func (p *Plugin) GC(ctx context.Context, c Call) error {
	opened, err := p.open(c)
	if err != nil {
		return err
	}
	conf, err := c.config()
	if err != nil {
		return err
	}
	if conf.ValidAttachments == nil {
		return types.NewError(types.ErrInvalidNetworkConfig, `"cni.dev/valid-attachments" is missing: want the list of valid attachments; nothing is freed`, "")
	}
	kept := map[ipam.Owner]bool{}
	for _, a := range conf.ValidAttachments {
		kept[ipam.Owner{ContainerID: a.ContainerID, Interface: a.IfName}] = true
	}
	leases, err := opened.pool.Leases(ctx)
	if err != nil {
		return cniError(err)
	}
	used, err := p.InUse()
	if err != nil {
		return cniError(err)
	}
	for _, owner := range stale(leases, kept, used, time.Now()) {
		err = errors.Join(err, opened.pool.Del(ctx, owner))
	}
	return cniError(err)
}

// stale returns the attachments none of whose leases is to be kept.
func stale(leases []local.Lease, kept map[ipam.Owner]bool, used map[netip.Addr]string, now time.Time) []ipam.Owner {
	var owners []ipam.Owner
	for _, l := range leases {
		if used[l.Address] != "" || now.Sub(l.Made) < collectedAfter {
			kept[l.Owner] = true
		}
	}
	for _, l := range leases {
		if !kept[l.Owner] {
			kept[l.Owner] = true // once
			owners = append(owners, l.Owner)
		}
	}
	return owners
}
