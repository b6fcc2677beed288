// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"encoding/json"
	"errors"
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

// plan is everything that Setup will do, decided before any plugin runs.
type plan struct {
	elements    []selection.Element
	attachments []state.Attachment
	mappings    [][]cni.PortMapping // of each attachment
}

// marker is the top-level key "allocnet" of the conflist that an attachment is
// made with. libcni ignores it and keeps it in its cache, where it tells our
// attachments from those of other runtimes when the records are lost.
type marker struct {
	Attachment *markedAttachment `json:"attachment"`
}

type markedAttachment struct {
	Index      int      `json:"index"`
	Primary    bool     `json:"primary,omitempty"`
	NetnsOwned bool     `json:"netnsOwned,omitempty"`
	After      []string `json:"after,omitempty"`
}

// plan resolves a request against the conf directory. Every error is one of
// the request or the host's configuration: nothing has been done yet.
func (e *Engine) plan(r Request) (*plan, error) {
	elements, err := selection.Assign(r.Primary, r.Networks, r.Defaults)
	if err != nil {
		return nil, err
	}
	if err := checkDefaultRoutes(elements); err != nil {
		return nil, err
	}
	networks, err := e.resolve(elements)
	if err != nil {
		return nil, err
	}
	if err := e.permit(r.Identity, elements, networks); err != nil {
		return nil, err
	}
	p := &plan{elements: elements}
	p.order(r, networks)
	if err := p.bind(r, networks); err != nil {
		return nil, err
	}
	for i := range p.attachments {
		p.attachments[i].PluginDirs = e.config.PluginDirs
	}
	return p, nil
}

// Catalog returns the networks that can be attached now: Config.Networks, then
// those of Config.ConfDir as they stand.
func (e *Engine) Catalog() (*cniconf.Catalog, error) {
	catalog, err := cniconf.Load(e.config.ConfDir)
	if errors.Is(err, cniconf.ErrNoDir) && len(e.config.Networks) > 0 {
		catalog, err = &cniconf.Catalog{Dir: e.config.ConfDir}, nil
	}
	if err != nil {
		return nil, err
	}
	catalog.Networks = slices.Concat(e.config.Networks, catalog.Networks)
	return catalog, nil
}

// resolve finds the networks of the elements and the binaries that they need.
func (e *Engine) resolve(elements []selection.Element) ([]*cniconf.Network, error) {
	catalog, err := e.Catalog()
	if err != nil {
		return nil, err
	}
	networks := make([]*cniconf.Network, len(elements))
	for i, element := range elements {
		if networks[i], err = catalog.Lookup(element.Name); err != nil {
			return nil, err
		}
		if slices.Contains(networks[i].PluginTypes(), ownPlugin) {
			return nil, &RequestError{"network", element.Name, "is made by " + ownPlugin + " itself: name one of those that it attaches"}
		}
		if err := cniconf.FindPlugins(networks[i], e.config.PluginDirs); err != nil {
			return nil, err
		}
	}
	return networks, nil
}

// permit holds the elements to the policy of their networks and of the host.
func (e *Engine) permit(who policy.Identity, elements []selection.Element, networks []*cniconf.Network) error {
	host, err := policy.Load(e.config.PolicyFile)
	if err != nil {
		return err
	}
	asked := make([]policy.Attachment, len(elements))
	for i, element := range elements {
		rules, err := policy.Parse(networks[i].Path, networks[i].Options)
		if err != nil {
			return err
		}
		asked[i] = policy.Attachment{
			Network: element.Name, Interface: element.Interface, Rules: rules,
			StaticIPs: element.ChoosesIPs(), StaticMAC: element.ChoosesMAC(),
		}
	}
	return policy.Check(who, host, asked)
}

// order makes the attachments and decides which of them wait for others.
func (p *plan) order(r Request, networks []*cniconf.Network) {
	lists := make([]*libcni.NetworkConfigList, len(networks))
	now := time.Now().UTC()
	for i, network := range networks {
		lists[i] = network.List
		p.attachments = append(p.attachments, state.Attachment{
			Network:   network.Name,
			Interface: p.elements[i].Interface,
			Index:     i,
			Primary:   i == 0 && r.Primary != nil,
			Phase:     state.Adding,
			Args:      r.cniArgs(),
			Created:   now,
			Updated:   now,
		})
	}
	setupOrder(p.attachments, lists)
}

// bind gives each attachment its conflist, capability args and ports.
func (p *plan) bind(r Request, networks []*cniconf.Network) error {
	rest := r.Ports
	var all []cni.PortMapping
	p.mappings = make([][]cni.PortMapping, len(networks))
	for i := range slices.Backward(networks) { // the primary comes last: it takes what is left
		taken, err := p.takePorts(i, &rest)
		if err != nil {
			return err
		}
		mark, err := json.Marshal(marker{&markedAttachment{i, p.attachments[i].Primary, r.Netns == "", p.attachments[i].After}})
		if err != nil {
			return err
		}
		binding, err := p.elements[i].Bind(networks[i], taken, r.PortOptions, mark)
		if err != nil {
			return err
		}
		p.attachments[i].ConfList = binding.ConfList
		p.attachments[i].CapabilityArgs = binding.CapabilityArgs
		p.mappings[i] = binding.Mappings
		all = append(all, binding.Mappings...)
	}
	if len(rest) > 0 {
		return &RequestError{"port", rest[0].Label, "no attachment takes it: there is no primary, so name its label in a network's \"ports\""}
	}
	return portmap.Check(all)
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

// checkInterfaces refuses interface names that the namespace has already.
func (p *plan) checkInterfaces(path string, ns *netns.Namespace) error {
	present, err := ns.Interfaces()
	if err != nil {
		return err
	}
	for _, a := range p.attachments {
		for _, i := range present {
			if i.Name == a.Interface {
				return &InterfaceExistsError{Netns: path, Interface: i.Name, Network: a.Network}
			}
		}
	}
	return nil
}
