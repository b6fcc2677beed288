// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"slices"

	"github.com/containerd/go-cni"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/state"
)

// bindAll gives each attachment its conflist, capability args and ports.
func (e *Engine) bindAll(p *plan, r Request) error {
	all, err := recordedPorts(p.existing)
	if err != nil {
		return err
	}
	rest := r.Ports
	for i := range slices.Backward(p.added) { // the primary comes last: it takes what is left
		ports, left, err := p.added[i].takePorts(rest)
		if err != nil {
			return err
		}
		if err := e.bind(&p.added[i], p.allocation, r, ports); err != nil {
			return err
		}
		rest, all = left, append(all, p.added[i].mappings...)
	}
	if len(rest) > 0 {
		return &RequestError{"port", rest[0].Label, "no attachment takes it: there is no primary, so name its label in a network's \"ports\""}
	}
	return portmap.Check(all)
}

// bind gives one attachment its conflist, its capability args and the ports.
func (e *Engine) bind(p *planned, allocation state.Allocation, r Request, ports []portmap.Port) error {
	encoded, err := onrecord.NewMarker(allocation, *p.attachment)
	if err != nil {
		return err
	}
	unpinned := func(bridge string) int { return e.unpinnedMTU(context.Background(), bridge, "", "") }
	bridges, err := boundMTU(p.element, p.network.List, e.config.Host, unpinned)
	if err != nil {
		return err
	}
	binding, err := p.element.Bind(p.network, ports, r.PortOptions, encoded)
	if err != nil {
		return err
	}
	p.mappings, p.chosen = binding.Mappings, binding.Chosen
	if r.Operator {
		p.chosen = binding.Mappings
	}
	a := p.attachment
	a.BridgeMTU, a.ConfList, a.CapabilityArgs = bridges, binding.ConfList, binding.CapabilityArgs
	if a.ChosenPorts, err = encodeChosen(p.chosen); err != nil {
		return err
	}
	return e.chooseExecutor(p)
}

// takePorts divides ports into those of the attachment and the rest.
func (p *planned) takePorts(ports []portmap.Port) (taken, left []portmap.Port, err error) {
	if p.attachment.Primary && p.element.Ports == nil {
		return ports, nil, nil
	}
	return portmap.Select(ports, p.element.Ports)
}

// recordedPorts returns the mappings of recorded attachments.
func recordedPorts(attachments []state.Attachment) ([]cni.PortMapping, error) {
	var all []cni.PortMapping
	for _, a := range attachments {
		described, err := describeAttachment(a)
		if err != nil {
			return nil, err
		}
		for _, port := range described.Ports {
			all = append(all, cni.PortMapping(port))
		}
	}
	return all, nil
}
