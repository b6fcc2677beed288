// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"context"
	"errors"
	"net/netip"
)

// An attachment may have an address published: on an interface of the host, where its ports are. It is there only while this host
// holds it, which the store says before. It is removed before the record says that it is given back, so that another host may have it at
// once, and as soon as this host learns that another one has it.

// unpublish removes the published address of a record from the host. One that has the lease of another attachment is that one's: the
// record is old.
func (a *Addresses) unpublish(ctx context.Context, address netip.Addr, r *record) error {
	if !r.Content.Published {
		return nil
	}
	leased, ok, err := a.o.Leases.Owner(ctx, address)
	if err != nil || ok && leased != r.Content.Owner {
		return err
	}
	return a.o.Links.Unpublish(address)
}

// unpublishOthers removes addresses of the pool that are published here without a record, unless the store says that this machine
// holds them, maybe with an earlier state directory: something may run that is on record no more. No other process takes addresses now.
func (s *session) unpublishOthers() error {
	published, err := s.a.o.Links.Published()
	if err != nil {
		return err
	}
	var errs []error
	for _, address := range sorted(published) {
		e := s.view.at(address)
		isOwn := e.isHeld() && (e.content.Host.Instance == s.host.Instance || s.isOwnNode(e))
		if !s.a.o.Config.IsReserved(address) || s.records[address] != nil || isOwn || e.err != nil {
			continue
		}
		s.a.o.Logger.Warn("removed an address from an interface of this host, which does not hold it", "address", address, "interface", published[address])
		errs = append(errs, s.a.o.Links.Unpublish(address))
	}
	return errors.Join(errs...)
}
