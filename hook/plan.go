// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"fmt"
	"slices"
	"time"

	"github.com/containerd/go-cni"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// ownPlugin is the CNI plugin that runs this engine. Attaching a network of it would wait
// for the lock of the allocation for ever.
const ownPlugin = "allocnet-cni"

// plan is everything that Setup or Extend will do, decided before any plugin runs.
type plan struct {
	allocation state.Allocation
	// existing are the attachments that the allocation has.
	existing []state.Attachment
	// added are those that the plan adds.
	added []planned
}

// planned is one attachment of a plan.
type planned struct {
	element selection.Element
	network *cniconf.Network
	// choice has the addresses and MACs that are chosen for it.
	choice selection.Choice
	// devices are the names of the links of the host that the network is on, known if something is chosen.
	devices []string
	// attachment is a part of the operation's record from addTo on.
	attachment *state.Attachment
	// sourceRouting is whether it gets a routing table of its own.
	sourceRouting bool
	// executor is Rules.Executor of the network.
	executor string
	// mappings are its ports; chosen are those of them that no scheduler assigned.
	mappings, chosen []cni.PortMapping
}

// plan resolves the request of Setup. Every error is one of the request or of the
// host's configuration: nothing has been done yet.
func (e *Engine) plan(r Request, digest string) (*plan, error) {
	elements, err := selection.Assign(r.Primary, r.Networks, r.Defaults)
	if err != nil {
		return nil, err
	}
	a, err := e.allocation(r, state.ModeSetup, digest)
	if err != nil {
		return nil, err
	}
	p := &plan{allocation: a}
	return p, e.fill(p, r, elements, setupBatch)
}

// fill adds an attachment for each element.
func (e *Engine) fill(p *plan, r Request, elements []selection.Element, batch state.Batch) error {
	if err := checkDefaultRoutes(elements); err != nil {
		return err
	}
	networks, err := e.resolve(elements)
	if err != nil {
		return err
	}
	first := nextIndex(p.existing)
	for i, element := range elements {
		a, err := e.newAttachment(r, element, r.Primary != nil && i == 0)
		if err != nil {
			return err
		}
		a.Index, a.Batch = first+i, batch
		p.added = append(p.added, planned{element: element, network: networks[i], attachment: a})
	}
	if err := p.readChoices(r); err != nil {
		return err
	}
	if err := e.permit(r, p); err != nil {
		return err
	}
	if err := p.readOptions(); err != nil {
		return err
	}
	if err := p.refuseSharedRoutes(); err != nil {
		return err
	}
	if err := e.refuseSharedNames(p); err != nil {
		return err
	}
	if err := p.checkAddresses(e.config.Host); err != nil {
		return err
	}
	if batch == setupBatch {
		if p.allocation.DNS, err = e.selectDNS(r, p); err != nil {
			return err
		}
	}
	p.order()
	return e.bindAll(p, r)
}

// nextIndex returns the Index of the next attachment of an allocation.
func nextIndex(existing []state.Attachment) int {
	next := 0
	for _, a := range existing {
		next = max(next, a.Index+1)
	}
	return next
}

// newAttachment returns the record of an attachment whose ADD has not begun.
func (e *Engine) newAttachment(r Request, element selection.Element, primary bool) (*state.Attachment, error) {
	now := time.Now().UTC()
	a := &state.Attachment{
		Network: element.Name, Interface: element.Interface, ContainerID: state.ContainerID(r.ID, element.Interface),
		Primary: primary, Task: r.Task, Phase: state.Adding, Planned: true, Args: r.cniArgs(), PluginDirs: e.config.PluginDirs,
		Created: now, Updated: now,
	}
	if primary {
		a.ContainerID = r.ID
	}
	if err := state.ValidateContainerID(a.ContainerID); err != nil {
		return nil, &RequestError{"allocation ID", r.ID, fmt.Sprintf("the container ID of interface %s would have %d bytes, want at most 128: use a shorter ID", a.Interface, len(a.ContainerID))}
	}
	if excess := len(cacheName(*a)) - maxCacheName; excess > 0 {
		return nil, &RequestError{"network", a.Network, fmt.Sprintf("libcni's cache could not keep the result of interface %s: use a name or an allocation ID that is %d bytes shorter", a.Interface, excess)}
	}
	return a, nil
}

// attachments returns those that the plan adds.
func (p *plan) attachments() []state.Attachment {
	all := make([]state.Attachment, len(p.added))
	for i, added := range p.added {
		all[i] = *added.attachment
	}
	return all
}

// addTo puts the attachments of the allocation into a record. From then on the plan
// refers to those of the record.
func (p *plan) addTo(r *state.Record) {
	r.Attachments = slices.Concat(p.existing, p.attachments())
	for i := range p.added {
		p.added[i].attachment = &r.Attachments[len(p.existing)+i]
	}
}

// resolve finds the networks of the elements, all of whose plugins are installed.
func (e *Engine) resolve(elements []selection.Element) ([]*cniconf.Network, error) {
	catalog, err := e.Catalog()
	if err != nil {
		return nil, err
	}
	usable := e.config.Usable(catalog)
	names := make([]string, len(elements))
	for i, element := range elements {
		names[i] = element.Name
	}
	networks, err := usable.LookupAll(names)
	if err != nil {
		return nil, err
	}
	for _, n := range networks {
		if slices.Contains(n.PluginTypes(), ownPlugin) {
			return nil, &RequestError{"network", n.Name, "is made by " + ownPlugin + " itself: name one of those that it attaches"}
		}
	}
	return networks, nil
}

// permit checks the attachments against the policies of their networks and of the host.
func (e *Engine) permit(r Request, p *plan) error {
	host, err := policy.Load(e.config.PolicyFile)
	if err != nil {
		return err
	}
	existing := map[string]int{}
	for _, a := range p.existing {
		existing[a.Network]++
	}
	requested := make([]policy.Attachment, len(p.added))
	for i, added := range p.added {
		element := added.element
		rules, err := policy.Of(added.network)
		if err != nil {
			return err
		}
		requested[i] = policy.Attachment{
			Network: element.Name, Interface: element.Interface, Rules: rules, Existing: existing[element.Name],
			StaticIPs: len(added.choice.Addresses) > 0, StaticMAC: len(added.choice.Hardware) > 0, MTU: element.MTU != 0,
			HasRanges: !added.network.UsesIPAM(func(ipam string) bool { return ipam == "static" }),
		}
		if !r.Operator && i < len(p.added)-len(r.Defaults) {
			requested[i].HostPorts, requested[i].Addresses = element.HostPorts(), added.choice.Addresses
		}
	}
	return policy.Check(r.Identity, host, requested)
}

// checkInterfaces refuses interface names that the namespace or the record has
// already: an attachment that could not be removed keeps its own.
func (p *plan) checkInterfaces(path string, ns kernel.Namespace) error {
	present, err := ns.Interfaces()
	if err != nil {
		return err
	}
	taken := func(name string) bool {
		return netns.Index(present, name) >= 0 ||
			slices.ContainsFunc(p.existing, func(a state.Attachment) bool { return a.Interface == name })
	}
	for _, added := range p.added {
		if a := added.attachment; taken(a.Interface) {
			return &InterfaceExistsError{Netns: path, Interface: a.Interface, Network: a.Network}
		}
	}
	return nil
}
