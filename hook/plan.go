// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/go-cni"
	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// ownPlugin is the CNI plugin that is this engine. To attach a network of it
// would wait for ever for the lock of the allocation.
const ownPlugin = "allocnet-cni"

// plan is everything that Setup or Extend will do, decided before any plugin
// runs.
type plan struct {
	// standing are the attachments that the allocation has; the plan adds to
	// them.
	standing    []state.Attachment
	allocation  state.Allocation
	elements    []selection.Element
	attachments []state.Attachment
	// mappings are those of each attachment; chosen are those of them that no
	// scheduler assigned.
	mappings, chosen [][]cni.PortMapping
	host             Host
	// unpinned returns the MTU that a bridge is to have at least.
	unpinned func(bridge string) int
}

// marker is the top-level key "allocnet" of the conflist that an attachment is
// made with. libcni ignores it and keeps it in its cache, where it tells our
// attachments from those of other runtimes when the records are lost.
type marker struct {
	Attachment *markedAttachment `json:"attachment"`
	// Allocation is the attachment's, without the identity of its namespace.
	Allocation *state.Allocation `json:"allocation"`
}

type markedAttachment struct {
	Index     int         `json:"index"`
	Primary   bool        `json:"primary,omitempty"`
	Batch     state.Batch `json:"batch"`
	Task      string      `json:"task,omitempty"`
	DependsOn []string    `json:"dependsOn,omitempty"`
}

// plan resolves a request against the conf directory. Every error is one of
// the request or the host's configuration: nothing has been done yet.
func (e *Engine) plan(r Request, digest string) (*plan, error) {
	elements, err := selection.Assign(r.Primary, r.Networks, r.Defaults)
	if err != nil {
		return nil, err
	}
	a, err := e.allocation(r, state.ModeSetup, digest)
	if err != nil {
		return nil, err
	}
	p := &plan{elements: elements, allocation: a}
	return p, e.fill(p, r, setupBatch)
}

// fill makes the attachments of a plan from its elements.
func (e *Engine) fill(p *plan, r Request, batch state.Batch) error {
	if err := checkDefaultRoutes(p.elements); err != nil {
		return err
	}
	networks, err := e.resolve(p.elements)
	if err != nil {
		return err
	}
	if err := e.permit(r, p, networks); err != nil {
		return err
	}
	p.order(r, networks)
	p.host = e.config.Host
	p.unpinned = func(bridge string) int { return e.unpinnedMTU(context.Background(), bridge, "", "") }
	for i := range p.attachments {
		a := &p.attachments[i]
		if err := state.ValidateContainerID(a.ContainerID); err != nil {
			return &RequestError{"allocation ID", r.ID, fmt.Sprintf("the container ID of interface %s would have %d bytes, want at most 128: use a shorter ID", a.Interface, len(a.ContainerID))}
		}
		a.Batch, a.Task, a.PluginDirs = batch, r.Task, e.config.PluginDirs
	}
	return p.bind(r, networks)
}

// Catalog returns the networks that can be attached now: Config.Networks, then
// those of Config.ConfDirs as they stand.
func (e *Engine) Catalog() (*cniconf.Catalog, error) {
	catalog, err := cniconf.Load(e.config.ConfDirs...)
	if errors.Is(err, cniconf.ErrNoDir) && len(e.config.Networks) > 0 {
		catalog, err = &cniconf.Catalog{Dirs: e.config.ConfDirs}, nil
	}
	if err != nil {
		return nil, err
	}
	catalog.Networks = slices.Concat(e.config.Networks, catalog.Networks)
	return catalog, nil
}

// resolve finds the networks of the elements, all of whose plugins are installed.
func (e *Engine) resolve(elements []selection.Element) ([]*cniconf.Network, error) {
	catalog, err := e.Catalog()
	if err != nil {
		return nil, err
	}
	usable := catalog.Usable(e.config.PluginDirs)
	networks := make([]*cniconf.Network, len(elements))
	for i, element := range elements {
		if networks[i], err = usable.Lookup(element.Name); err != nil {
			return nil, err
		}
		if slices.Contains(networks[i].PluginTypes(), ownPlugin) {
			return nil, &RequestError{"network", element.Name, "is made by " + ownPlugin + " itself: name one of those that it attaches"}
		}
	}
	return networks, nil
}

// permit holds the elements to the policy of their networks and of the host.
func (e *Engine) permit(r Request, p *plan, networks []*cniconf.Network) error {
	host, err := policy.Load(e.config.PolicyFile)
	if err != nil {
		return err
	}
	standing := map[string]int{}
	for _, a := range p.standing {
		standing[a.Network]++
	}
	asked := make([]policy.Attachment, len(p.elements))
	for i, element := range p.elements {
		rules, err := policy.Parse(networks[i].Path, networks[i].Options)
		if err != nil {
			return err
		}
		asked[i] = policy.Attachment{
			Network: element.Name, Interface: element.Interface, Rules: rules, Standing: standing[element.Name],
			StaticIPs: element.ChoosesIPs(), StaticMAC: element.ChoosesMAC(), MTU: element.MTU != 0,
		}
		if !r.Operator && i < len(p.elements)-len(r.Defaults) {
			asked[i].HostPorts = element.HostPorts()
		}
	}
	return policy.Check(r.Identity, host, asked)
}

// order makes the attachments and decides which of them wait for others.
func (p *plan) order(r Request, networks []*cniconf.Network) {
	lists := make([]*libcni.NetworkConfigList, len(networks))
	now := time.Now().UTC()
	first := 0
	for _, a := range p.standing {
		first = max(first, a.Index+1)
	}
	for i, network := range networks {
		lists[i] = network.List
		p.attachments = append(p.attachments, state.Attachment{
			Network:     network.Name,
			Interface:   p.elements[i].Interface,
			ContainerID: state.ContainerID(r.ID, p.elements[i].Interface),
			Index:       first + i,
			Phase:       state.Adding,
			Args:        r.cniArgs(),
			Created:     now,
			Updated:     now,
		})
	}
	if r.Primary != nil {
		p.attachments[0].Primary, p.attachments[0].ContainerID = true, r.ID
	}
	setupOrder(p.standing, p.attachments, lists)
}

// bind gives each attachment its conflist, capability args and ports.
func (p *plan) bind(r Request, networks []*cniconf.Network) error {
	rest := r.Ports
	all, err := recordedPorts(p.standing)
	if err != nil {
		return err
	}
	p.mappings, p.chosen = make([][]cni.PortMapping, len(networks)), make([][]cni.PortMapping, len(networks))
	for i := range slices.Backward(networks) { // the primary comes last: it takes what is left
		taken, err := p.takePorts(i, &rest)
		if err != nil {
			return err
		}
		mark, err := p.marker(i)
		if err != nil {
			return err
		}
		if p.attachments[i].BridgeMTU, err = boundMTU(p.elements[i], networks[i].List, p.host, p.unpinned); err != nil {
			return err
		}
		binding, err := p.elements[i].Bind(networks[i], taken, r.PortOptions, mark)
		if err != nil {
			return err
		}
		p.attachments[i].ConfList = binding.ConfList
		p.attachments[i].CapabilityArgs = binding.CapabilityArgs
		p.mappings[i], p.chosen[i] = binding.Mappings, binding.Chosen
		if r.Operator {
			p.chosen[i] = binding.Mappings
		}
		if p.attachments[i].ChosenPorts, err = encodeChosen(p.chosen[i]); err != nil {
			return err
		}
		all = append(all, binding.Mappings...)
	}
	if len(rest) > 0 {
		return &RequestError{"port", rest[0].Label, "no attachment takes it: there is no primary, so name its label in a network's \"ports\""}
	}
	return portmap.Check(all)
}

func (p *plan) marker(i int) (json.RawMessage, error) {
	a := p.attachments[i]
	return json.Marshal(marker{&markedAttachment{
		Index: a.Index, Primary: a.Primary, Batch: a.Batch, Task: a.Task, DependsOn: a.DependsOn,
	}, &p.allocation})
}

// recordedPorts are the mappings of what is attached.
func recordedPorts(attachments []state.Attachment) ([]cni.PortMapping, error) {
	var all []cni.PortMapping
	for _, a := range attachments {
		described, err := describeAttachment(a)
		if err != nil {
			return nil, err
		}
		all = append(all, described.Ports...)
	}
	return all, nil
}

// takePorts takes the ports of attachment i out of rest.
func (p *plan) takePorts(i int, rest *[]portmap.Port) ([]portmap.Port, error) {
	if p.attachments[i].Primary && p.elements[i].Ports == nil {
		taken := *rest
		*rest = nil
		return taken, nil
	}
	taken, left, err := portmap.Select(*rest, p.elements[i].Ports)
	*rest = left
	return taken, err
}

// checkInterfaces refuses interface names that the namespace has already, or
// that stand on record: an attachment that could not be removed keeps its own.
func (p *plan) checkInterfaces(path string, ns Namespace) error {
	present, err := ns.Interfaces()
	if err != nil {
		return err
	}
	taken := func(name string) bool {
		return slices.ContainsFunc(present, func(i netns.Interface) bool { return i.Name == name }) ||
			slices.ContainsFunc(p.standing, func(a state.Attachment) bool { return a.Interface == name })
	}
	for _, a := range p.attachments {
		if taken(a.Interface) {
			return &InterfaceExistsError{Netns: path, Interface: a.Interface, Network: a.Network}
		}
	}
	return nil
}
