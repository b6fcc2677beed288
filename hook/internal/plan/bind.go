// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// bindAll gives each attachment its conflist, capability args and ports.
func (p *Plan) bindAll(r Request, f Facts) error {
	all, err := recordedPorts(p.Existing)
	if err != nil {
		return err
	}
	rest, iptables := r.Ports, f.Host.IPTables()
	for i := range slices.Backward(p.Added) { // the primary comes last: it takes what is left
		ports, left, err := p.Added[i].takePorts(rest)
		if err != nil {
			return err
		}
		p.Added[i].Attachment.IPTables = iptables
		if err := p.Added[i].bind(p.Allocation, r, ports, f); err != nil {
			return err
		}
		rest, all = left, append(all, p.Added[i].Mappings...)
	}
	if len(rest) > 0 {
		return &RequestError{"port", rest[0].Label, "no attachment takes it: there is no primary, so name its label in a network's \"ports\""}
	}
	return portmap.Check(all)
}

// bind gives one attachment its conflist, its capability args and the ports.
func (p *Attachment) bind(allocation state.Allocation, r Request, ports []portmap.Port, f Facts) error {
	encoded, err := onrecord.NewMarker(allocation, *p.Attachment)
	if err != nil {
		return err
	}
	uplink, err := p.uplinkMTU(f.Host)
	if err != nil {
		return err
	}
	bridges, err := boundMTU(p.Element, withMTU(p.network.Chain(), uplink), f.Host, f.UnpinnedMTU)
	if err != nil {
		return err
	}
	var byOperator []portmap.Port
	if r.Operator {
		byOperator = ports
	}
	if err := p.refusePublished(byOperator, f); err != nil {
		return err
	}
	published, element, err := p.publishBoth(ports, f.Host)
	if err != nil {
		return err
	}
	publish := p.rules.PublishAddress.Of(r.Identity)
	if publish != nil {
		if published, element, err = publishOn(publish.Addresses, published, element, !r.Operator); err != nil {
			return err
		}
	}
	added, err := portmap.Mappings(slices.DeleteFunc(slices.Clone(published), func(port portmap.Port) bool { return slices.Contains(ports, port) }))
	if err != nil {
		return err
	}
	binding, err := selection.Bind(element, p.network, published, cniconf.Edit{DefaultMTU: uplink, EgressAddresses: p.rules.EgressAddress.Of(r.Identity), PublishAddress: publish, Marker: encoded})
	if err != nil {
		return err
	}
	p.Mappings, p.chosen = binding.Mappings, binding.Chosen
	if r.Operator {
		p.chosen = binding.Mappings
	}
	p.unassigned = slices.Concat(p.chosen, added)
	a := p.Attachment
	a.BridgeMTU, a.ConfList, a.CapabilityArgs = bridges, binding.ConfList, binding.CapabilityArgs
	if err := p.chooseExecutor(f); err != nil {
		return err
	}
	if err := p.forPlugins(); err != nil {
		return err
	}
	a.ChosenPorts, err = encodeChosen(p.chosen)
	return err
}

// chooseExecutor records what executes the plugins of an attachment, whose conflist is complete. Plugins know no addresses of the host, and
// are refused where it has some.
func (p *Attachment) chooseExecutor(f Facts) (err error) {
	if p.List, err = cniconf.ParseList(p.Attachment.ConfList); err != nil {
		return err
	}
	why := f.WhyPlugins(p.List, p.rules.Executor)
	if why == nil {
		p.Attachment.Executor = state.InProcess
		return nil
	}
	p.Attachment.Executor = state.Plugins
	ofPlugins := func(*cniconf.Network) error { return why }
	return cmp.Or(policy.CheckEgress(p.network, ofPlugins), policy.CheckPublishAddress(p.network, ofPlugins))
}

// forPlugins makes ranges of ports single ones where plugins get them: CNI has no ranges.
func (p *Attachment) forPlugins() (err error) {
	if p.Attachment.Executor != state.Plugins || !slices.ContainsFunc(p.Mappings, func(m portmap.Mapping) bool { return m.LastHostPort != 0 }) {
		return nil
	}
	if p.Mappings, err = portmap.Single(p.Mappings); err != nil {
		return err
	}
	if p.chosen, err = portmap.Single(p.chosen); err != nil {
		return err
	}
	p.Attachment.CapabilityArgs["portMappings"] = portmap.Capability(p.Mappings)
	return nil
}

// takePorts divides ports into those of the attachment and the rest.
func (p *Attachment) takePorts(ports []portmap.Port) (taken, left []portmap.Port, err error) {
	if p.Attachment.Primary && p.Element.Ports == nil {
		return ports, nil, nil
	}
	return portmap.Select(ports, p.Element.Ports)
}

func recordedPorts(attachments []state.Attachment) ([]portmap.Mapping, error) {
	var all []portmap.Mapping
	for _, a := range attachments {
		if a.Status == nil {
			continue
		}
		seen, err := onrecord.ReadStatus(a)
		if err != nil {
			return nil, err
		}
		all = append(all, seen.Mappings()...)
	}
	return all, nil
}

// encodeChosen returns chosen ports in the form of the record; nil for none.
func encodeChosen(mappings []portmap.Mapping) (json.RawMessage, error) {
	if len(mappings) == 0 {
		return nil, nil
	}
	return json.Marshal(portmap.Capability(mappings))
}
