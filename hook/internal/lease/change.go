// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/isolate"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/internal/inprocess/ipam"
	"github.com/allocnet/allocnet/state"
)

// change records a lease in the place of that of an attachment, unless the record has changed meanwhile, and has the namespace be as
// the lease has it.
func (k *keeper) change(ctx context.Context, h *hold, l dhcp.Lease) error {
	return k.env.Locked(ctx, h.allocation, func(o *operation.Operation) error {
		at, before := h.find(o.Record), h.before
		if at < 0 {
			return nil
		}
		now := &o.Record.Attachments[at]
		if before.Former == nil && l.SameAs(before) {
			now.SetLease(l)
			return o.Lock.WriteDurable(*now) // which keeps the journal from growing
		}
		started := time.Now()
		err := k.replace(ctx, o, now, l)
		if l.Lost {
			err = errors.Join(err, fmt.Errorf("the lease of %s has ended, and no DHCP server extends it", l.Address))
		}
		o.Config.Report(o.Observation(config.OpLease, *now, 1, started, err))
		return err
	})
}

func (k *keeper) replace(ctx context.Context, o *operation.Operation, a *state.Attachment, l dhcp.Lease) error {
	if l.Former == nil {
		if err := recordChange(o, a, l); err != nil {
			return err
		}
	}
	n, err := o.Namespace()
	if err != nil {
		return err
	}
	recorded := *a.LeaseOf(l.Family())
	if err := k.enter(n, a.Interface, recorded); err != nil {
		return err
	}
	if err := recordApplied(o, n, a, recorded); err != nil {
		return err
	}
	o.AttachmentLog(*a).Info("the lease of DHCP is another one", "address", l.Address, "lost", l.Lost, "server", l.Server)
	return isolate.Apply(ctx, k.env)
}

// recordChange records a lease with the one that it replaces, and what it gives in the result.
func recordChange(o *operation.Operation, a *state.Attachment, l dhcp.Lease) error {
	before, leases := *a.LeaseOf(l.Family()), a.Leased()
	result, err := onrecord.ParseResult(a.Result)
	if err != nil {
		return err
	}
	list, err := onrecord.List(*a)
	if err != nil {
		return err
	}
	if l.Family() == dhcp.IPv4 {
		l.HadDefault = before.Lost && before.HadDefault || slices.ContainsFunc(result.Routes, isDefault)
	}
	a.SetLease(l)
	replaceResult(result, a.Interface, before, l)
	replaceDNS(result, leases, a.Leased())
	encoded, err := onrecord.EncodeResult(result, list.CNIVersion)
	if err != nil {
		return err
	}
	l.Former = &before
	a.SetLease(l)
	a.Result, a.Updated = encoded, time.Now().UTC()
	return o.Lock.Write(*a)
}

// recordApplied records that the namespace is as the lease has it, and what it shows.
func recordApplied(o *operation.Operation, n kernel.Namespace, a *state.Attachment, l dhcp.Lease) error {
	seen, err := onrecord.ReadStatus(*a)
	if err != nil {
		return err
	}
	interfaces, routes, err := kernel.Look(n)
	if err != nil {
		return err
	}
	l.Former = nil
	a.SetLease(l)
	if a.Status, err = onrecord.EncodeStatus(*a, interfaces, routes, seen.Mappings()); err != nil {
		return err
	}
	if err := errors.Join(o.Work().Keep(nil), o.Config.Cache().Write(*a, o.Record.Allocation.Netns)); err != nil {
		return err
	}
	return o.Lock.Write(*a)
}

// replaceResult has a result have what a lease gives in place of what another one of its family gave. What the network has for itself
// stays.
func replaceResult(result *types100.Result, iface string, before, l dhcp.Lease) {
	was, is := ipam.LeaseResult(before), ipam.LeaseResult(l)
	result.IPs = slices.DeleteFunc(result.IPs, func(i *types100.IPConfig) bool { return i.Address.IP.Equal(before.Address.Addr().AsSlice()) })
	for _, added := range is.IPs {
		if at := slices.IndexFunc(result.Interfaces, func(i *types100.Interface) bool { return i.Name == iface && i.Sandbox != "" }); at >= 0 {
			added.Interface = types100.Int(at)
		}
		result.IPs = append(result.IPs, added)
	}
	if l.Family() == dhcp.IPv6 {
		return // it gives no routes
	}
	result.Routes = slices.DeleteFunc(result.Routes, func(r *types.Route) bool {
		return isDefault(r) || slices.ContainsFunc(was.Routes, func(former *types.Route) bool { return r.Dst.String() == former.Dst.String() })
	})
	result.Routes = append(result.Routes, routesOf(l, l.HadDefault)...)
}

// replaceDNS has a result have the DNS of all leases, if it had that of those before: what is lost gave none.
func replaceDNS(result *types100.Result, were, are []dhcp.Lease) {
	if reflect.DeepEqual(result.DNS, ipam.LeaseResult(were...).DNS) {
		result.DNS = ipam.LeaseResult(are...).DNS
	}
}

func isDefault(r *types.Route) bool {
	ones, bits := r.Dst.Mask.Size()
	return ones == 0 && bits == 32
}
