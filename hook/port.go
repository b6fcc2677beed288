// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/containerd/go-cni"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/state"
)

// Ports of the host are assigned or chosen. Assigned ones come from the runtime,
// in Request.Ports: its scheduler knows that they are free, may hold them open, and may give them to the next allocation before the last one is
// torn down. Chosen ones are those of a selection, and all that an operator
// publishes: a chosen port must be free.

// PortInUseError is a port of the host that an attachment cannot have.
type PortInUseError struct {
	Network, Interface string
	Mapping            cni.PortMapping
	// Holder is what has the port.
	Holder string
}

func (e *PortInUseError) Error() string {
	return fmt.Sprintf("network %q as %s: host port %d/%s on %s is in use: %s", e.Network, e.Interface,
		e.Mapping.HostPort, e.Mapping.Protocol, cmp.Or(e.Mapping.HostIP, "all addresses"), e.Holder)
}

// Kind is that of package errdefs.
func (*PortInUseError) Kind() errdefs.Kind { return errdefs.Conflict }

// claimPorts refuses a plan with ports, or with chosen addresses, that are in use. Otherwise no
// other call gets one of them before release.
func (o *operation) claimPorts(ctx context.Context, p *plan) (release func(), err error) {
	choosing := p.anyPort(chosenPorts) || p.choosesAddresses()
	if !choosing && !p.anyPort(allPorts) {
		return func() {}, nil
	}
	release, err = o.store.LockPorts(ctx, choosing)
	if err != nil {
		return nil, err
	}
	err = o.checkListeners(p)
	if err == nil && p.anyPort(allPorts) {
		err = o.checkRecords(ctx, p)
	}
	if err == nil {
		err = o.checkChosen(ctx, p)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// checkListeners refuses a chosen port that a program of this host listens on:
// the mapping would take its traffic.
func (o *operation) checkListeners(p *plan) error {
	if !p.anyPort(chosenPorts) {
		return nil
	}
	listeners, err := o.config.Host.Listeners()
	if err != nil {
		return err
	}
	for _, l := range listeners {
		taken := cni.PortMapping{HostPort: int32(l.Port), Protocol: l.Protocol, HostIP: l.Address.String()}
		if l.Address.Is6() && l.Address.IsUnspecified() {
			taken.HostIP = "" // it receives IPv4 as well, unless told not to
		}
		if err := p.refuse(chosenPorts, taken, fmt.Sprintf("a program of this host listens on %s", l.Address)); err != nil {
			return err
		}
	}
	return nil
}

// checkRecords refuses a chosen port that another allocation has, and an
// assigned one that another allocation chose. The rules of an earlier boot are
// gone. An unreadable record fails only allocations that choose a port: an unknown port
// is not free.
func (o *operation) checkRecords(ctx context.Context, p *plan) error {
	boot, err := state.BootID()
	if err != nil {
		return err
	}
	others := o.store.ListChosen(ctx) // assigned ports collide with no others
	if p.anyPort(chosenPorts) {
		others = o.store.List(ctx)
	}
	for record, err := range others {
		if err == nil && o.portsUnknown(record) {
			err = &DamagedRecordError{Allocation: record.Allocation.ID, Damaged: record.Damaged}
		}
		if err != nil && p.anyPort(chosenPorts) {
			return fmt.Errorf("no host port can be chosen: the ports of another allocation are unknown: %w", err)
		}
		if err != nil {
			o.log.Warn("the ports of another allocation are unknown", "error", err)
			continue
		}
		own := record.Allocation.ID == o.record.Allocation.ID
		if past := record.Allocation.BootID != "" && record.Allocation.BootID != boot; own || past {
			continue
		}
		for _, a := range record.Attachments {
			if err := p.checkRecord(record.Allocation.ID, a); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// portsUnknown tells whether another allocation, which may be alive, has unknown ports
// because its record is damaged.
func (o *operation) portsUnknown(r state.Record) bool {
	other := &operation{Engine: o.Engine, log: o.log.With("allocation", r.Allocation.ID), record: r}
	return r.Allocation.ID != o.record.Allocation.ID && other.isUnknown()
}

func (p *plan) checkRecord(id string, a state.Attachment) error {
	for _, ports := range []struct {
		recorded any
		wanted   portsOf
	}{{a.CapabilityArgs["portMappings"], chosenPorts}, {a.ChosenPorts, allPorts}} {
		taken, err := onrecord.DecodeMappings(ports.recorded)
		if err != nil {
			return fmt.Errorf("ports of allocation %s: %w", id, err)
		}
		for _, t := range taken {
			if err := p.refuse(ports.wanted, t, fmt.Sprintf("allocation %s has mapped it for network %q", id, a.Network)); err != nil {
				return err
			}
		}
	}
	return nil
}

// anyPort tells whether the plan has ports of a kind.
func (p *plan) anyPort(of portsOf) bool {
	return slices.ContainsFunc(p.added, func(a planned) bool { return len(of(a)) > 0 })
}

// portsOf are the ports of one kind of an attachment.
type portsOf func(planned) []cni.PortMapping

func allPorts(a planned) []cni.PortMapping    { return a.mappings }
func chosenPorts(a planned) []cni.PortMapping { return a.chosen }

// refuse is a *PortInUseError when a port of the given kind overlaps one that is
// taken.
func (p *plan) refuse(of portsOf, taken cni.PortMapping, holder string) error {
	for _, a := range p.added {
		for _, m := range of(a) {
			if portmap.Overlap(m, taken) {
				return &PortInUseError{a.attachment.Network, a.attachment.Interface, m, holder}
			}
		}
	}
	return nil
}

// encodeChosen returns chosen ports in the form of the record; nil for none.
func encodeChosen(mappings []cni.PortMapping) (json.RawMessage, error) {
	if len(mappings) == 0 {
		return nil, nil
	}
	return json.Marshal(portmap.Capability(mappings))
}
