// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/state"
)

// Ports of the host are assigned or chosen. Assigned ones come from the runtime,
// in Request.Ports: its scheduler knows that they are free, may hold them open, and may give them to the next allocation before the last one is
// torn down. Chosen ones are those of a selection, and all that an operator
// publishes: a chosen port must be free.

// CheckPorts refuses a chosen port that another allocation has, and an assigned one that it chose.
func (p *Plan) CheckPorts(record state.Record) error {
	for _, a := range record.Attachments {
		if err := p.checkRecord(record.Allocation.ID, a); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plan) checkRecord(id string, a state.Attachment) error {
	for _, ports := range []struct {
		recorded any
		wanted   PortsOf
	}{{a.CapabilityArgs["portMappings"], ChosenPorts}, {a.ChosenPorts, AllPorts}} {
		taken, err := onrecord.DecodeMappings(ports.recorded)
		if err != nil {
			return fmt.Errorf("ports of allocation %s: %w", id, err)
		}
		for _, t := range taken {
			if err := p.RefusePort(ports.wanted, t, fmt.Sprintf("allocation %s has mapped it for network %q", id, a.Network)); err != nil {
				return err
			}
		}
	}
	return nil
}

// AnyPort tells whether the plan has ports of a kind.
func (p *Plan) AnyPort(of PortsOf) bool {
	return slices.ContainsFunc(p.Added, func(a Attachment) bool { return len(of(a)) > 0 })
}

// PortsOf are the ports of one kind of an attachment.
type PortsOf func(Attachment) []portmap.Mapping

// AllPorts are all of an attachment.
func AllPorts(a Attachment) []portmap.Mapping { return a.Mappings }

// ChosenPorts are those that no scheduler assigned.
func ChosenPorts(a Attachment) []portmap.Mapping { return a.chosen }

// UnassignedPorts returns the ports whose addresses no scheduler chose, so that programs of the host may have them.
func UnassignedPorts(a Attachment) []portmap.Mapping { return a.unassigned }

// RefusePort returns an error when a port of the given kind overlaps one that holder has.
func (p *Plan) RefusePort(of PortsOf, taken portmap.Mapping, holder string) error {
	for _, a := range p.Added {
		for _, m := range of(a) {
			if portmap.Overlap(m, taken) {
				return errdefs.As(errdefs.Conflict, fmt.Errorf("network %q as %s: host port %s/%s on %s is in use: %s",
					a.Attachment.Network, a.Attachment.Interface, m.HostPorts(), m.Protocol, cmp.Or(m.HostIP, "all addresses"), holder))
			}
		}
	}
	return nil
}
