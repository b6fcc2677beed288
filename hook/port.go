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

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/state"
)

// Ports of the host are assigned or chosen. Assigned ones come from the runtime,
// in Request.Ports: its scheduler has seen to it that they are free, may hold
// them open, and may give them to the next allocation before the last one is
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

// claimPorts refuses a plan whose ports others have. When it is allowed, no
// other call gets a port before release.
func (o *operation) claimPorts(ctx context.Context, p *plan) (release func(), err error) {
	if !anyMapping(p.mappings) {
		return func() {}, nil
	}
	release, err = o.store.LockPorts(ctx, anyMapping(p.chosen))
	if err != nil {
		return nil, err
	}
	err = p.checkListeners()
	if err == nil {
		err = o.checkRecords(ctx, p)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// checkListeners refuses a chosen port that a program of this host listens on:
// the mapping would take its traffic.
func (p *plan) checkListeners() error {
	if !anyMapping(p.chosen) {
		return nil
	}
	listeners, err := p.host.Listeners()
	if err != nil {
		return err
	}
	for _, l := range listeners {
		taken := cni.PortMapping{HostPort: int32(l.Port), Protocol: l.Protocol, HostIP: l.Address.String()}
		if l.Address.Is6() && l.Address.IsUnspecified() {
			taken.HostIP = "" // it receives IPv4 as well, unless told not to
		}
		if i, mapping, conflict := overlapping(p.chosen, taken); conflict {
			return p.portInUse(i, mapping, fmt.Sprintf("a program of this host listens on %s", l.Address))
		}
	}
	return nil
}

// checkRecords refuses a chosen port that another allocation has, and an
// assigned one that another allocation chose. The rules of an earlier boot are
// gone. A record that cannot be read keeps no other allocation from starting, unless
// that chooses a port: what is unknown is not free.
func (o *operation) checkRecords(ctx context.Context, p *plan) error {
	boot, err := state.BootID()
	if err != nil {
		return err
	}
	others := o.store.ListChosen(ctx) // assigned ports collide with no others
	if anyMapping(p.chosen) {
		others = o.store.List(ctx)
	}
	for record, err := range others {
		if err == nil && o.portsUnknown(record) {
			err = &DamagedRecordError{record.Allocation.ID, record.Damaged, nil}
		}
		if err != nil && anyMapping(p.chosen) {
			return fmt.Errorf("no host port can be chosen: the ports of another allocation are not known: %w", err)
		}
		if err != nil {
			o.log.Warn("its ports are not known", "error", err)
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

// portsUnknown tells whether another allocation, which may live, has ports that
// nothing tells, because its record is damaged.
func (o *operation) portsUnknown(r state.Record) bool {
	other := &operation{Engine: o.Engine, log: o.log.With("allocation", r.Allocation.ID), record: r}
	return r.Allocation.ID != o.record.Allocation.ID && other.isUnknown()
}

func (p *plan) checkRecord(id string, a state.Attachment) error {
	for _, has := range []struct {
		recorded any
		wanted   [][]cni.PortMapping
	}{{a.CapabilityArgs["portMappings"], p.chosen}, {a.ChosenPorts, p.mappings}} {
		taken, err := decodeMappings(has.recorded)
		if err != nil {
			return fmt.Errorf("ports of allocation %s: %w", id, err)
		}
		for _, t := range taken {
			if i, mapping, conflict := overlapping(has.wanted, t); conflict {
				return p.portInUse(i, mapping, fmt.Sprintf("allocation %s has mapped it for network %q", id, a.Network))
			}
		}
	}
	return nil
}

func (p *plan) portInUse(i int, m cni.PortMapping, holder string) error {
	return &PortInUseError{p.attachments[i].Network, p.attachments[i].Interface, m, holder}
}

func anyMapping(of [][]cni.PortMapping) bool {
	return slices.ContainsFunc(of, func(m []cni.PortMapping) bool { return len(m) > 0 })
}

// overlapping finds the attachment and the mapping that collide with another.
func overlapping(of [][]cni.PortMapping, taken cni.PortMapping) (i int, m cni.PortMapping, found bool) {
	for i, mappings := range of {
		for _, m := range mappings {
			if portmap.Overlap(m, taken) {
				return i, m, true
			}
		}
	}
	return 0, m, false
}

// decodeMappings reads mappings as a record has them.
func decodeMappings(recorded any) ([]cni.PortMapping, error) {
	data, err := json.Marshal(recorded)
	if err != nil {
		return nil, err
	}
	var mappings []cni.PortMapping
	return mappings, json.Unmarshal(data, &mappings)
}

// encodeChosen is what the record says of chosen ports; nil for none.
func encodeChosen(mappings []cni.PortMapping) (json.RawMessage, error) {
	if len(mappings) == 0 {
		return nil, nil
	}
	return json.Marshal(portmap.Capability(mappings))
}
