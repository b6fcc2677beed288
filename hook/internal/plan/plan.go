// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package plan makes a plan from a request, or refuses it: which attachments an allocation gets, with which conflists,
// addresses, ports and tables, and in which order. It does no I/O: what it has to know of the host and of the
// records it asks of Facts. Until the plan is complete, nothing has been done or recorded.
package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// Plan is everything that Setup or Extend will do, decided before any plugin runs.
type Plan struct {
	// Allocation is the record that it gets.
	Allocation state.Allocation
	// Existing are the attachments that the allocation has.
	Existing []state.Attachment
	// Before are the default routes of the namespace before.
	Before []netns.Route
	// Added are those that the plan adds.
	Added []Attachment
}

// Attachment is one attachment of a plan.
type Attachment struct {
	// Element is what is asked for.
	Element selection.Element
	network *cniconf.Network
	// choice has the addresses and MACs that are chosen for it.
	choice selection.Choice
	// devices are the names of the links of the host that the network is on, known if something is chosen.
	devices []string
	// Attachment is a part of the operation's record from AddTo on.
	Attachment *state.Attachment
	// List is Attachment.ConfList, decoded.
	List  *libcni.NetworkConfigList
	rules policy.Source
	// Mappings are its ports; chosen are those of them that no scheduler assigned. unassigned are these, and assigned ones on the
	// addresses of the other family, of which the scheduler knows nothing.
	Mappings, chosen, unassigned []portmap.Mapping
}

// New resolves the request of Setup. Every error is one of the request or of the
// host's configuration: nothing has been done yet.
func New(a state.Allocation, r Request, f Facts) (*Plan, error) {
	elements, err := selection.Assign(r.Primary, r.Networks, r.Defaults)
	if err != nil {
		return nil, err
	}
	p := &Plan{Allocation: a}
	return p, p.fill(r, elements, onrecord.SetupBatch, f)
}

// Extend resolves the request of Extend, with interfaces that are free on record and among those present.
func Extend(record state.Record, present []netns.Interface, r Request, batch state.Batch, f Facts) (*Plan, error) {
	var taken []string
	for _, i := range present {
		taken = append(taken, i.Name)
	}
	for _, a := range record.Attachments {
		taken = append(taken, a.Interface)
	}
	elements, err := selection.AssignFurther(taken, len(record.Attachments), r.Networks)
	if err != nil {
		return nil, err
	}
	p := &Plan{Existing: record.Attachments, Allocation: record.Allocation}
	return p, p.fill(r, elements, batch, f)
}

func (p *Plan) fill(r Request, elements []selection.Element, batch state.Batch, f Facts) error {
	if err := checkDefaultRoutes(elements); err != nil {
		return err
	}
	names := make([]string, len(elements))
	for i, element := range elements {
		names[i] = element.Name
	}
	networks, err := f.Networks(names)
	if err != nil {
		return err
	}
	first := NextIndex(p.Existing)
	for i, element := range elements {
		a, err := newAttachment(r, element, r.Primary != nil && i == 0, f.PluginDirs)
		if err != nil {
			return err
		}
		a.Index, a.Batch = first+i, batch
		p.Added = append(p.Added, Attachment{Element: element, network: networks[i], Attachment: a})
	}
	if err := p.readChoices(r); err != nil {
		return err
	}
	rules, err := f.Policy()
	if err != nil {
		return err
	}
	if err := p.permit(r, rules); err != nil {
		return err
	}
	if err := p.applyOptions(); err != nil {
		return err
	}
	if err := p.refuseSharedRoutes(); err != nil {
		return err
	}
	if err := p.refuseSharedNames(f.Record); err != nil {
		return err
	}
	if err := p.checkAddresses(f.Host); err != nil {
		return err
	}
	if batch == onrecord.SetupBatch {
		if p.Allocation.DNS, err = p.selectDNS(r, rules); err != nil {
			return err
		}
	}
	p.order()
	if err := p.bindAll(r, f); err != nil {
		return err
	}
	return p.isolate(r, f)
}

// NextIndex returns the Index of the next attachment of an allocation.
func NextIndex(existing []state.Attachment) int {
	next := 0
	for _, a := range existing {
		next = max(next, a.Index+1)
	}
	return next
}

// newAttachment returns the record of an attachment whose ADD has not begun.
func newAttachment(r Request, element selection.Element, primary bool, pluginDirs []string) (*state.Attachment, error) {
	now := time.Now().UTC()
	a := &state.Attachment{
		Network: element.Name, Interface: element.Interface, ContainerID: state.ContainerIDOf(r.ID, element.Interface, primary),
		Primary: primary, Task: r.Task, Phase: state.Adding, Planned: true, Args: r.cniArgs(), PluginDirs: pluginDirs,
		Created: now, Updated: now,
	}
	if err := state.ValidateContainerID(a.ContainerID); err != nil {
		return nil, &RequestError{"allocation ID", r.ID, fmt.Sprintf("the container ID of interface %s would have %d bytes, want at most 128: use a shorter ID", a.Interface, len(a.ContainerID))}
	}
	if excess := len(onrecord.CacheName(*a)) - onrecord.MaxCacheName; excess > 0 {
		return nil, &RequestError{"network", a.Network, fmt.Sprintf("libcni's cache could not keep the result of interface %s: use a name or an allocation ID that is %d bytes shorter", a.Interface, excess)}
	}
	return a, nil
}

// Attachments returns those that the plan adds.
func (p *Plan) Attachments() []state.Attachment {
	all := make([]state.Attachment, len(p.Added))
	for i, added := range p.Added {
		all[i] = *added.Attachment
	}
	return all
}

// AddTo puts the attachments of the allocation into a record. From then on the plan
// refers to those of the record.
func (p *Plan) AddTo(r *state.Record) {
	r.Attachments = slices.Concat(p.Existing, p.Attachments())
	for i := range p.Added {
		p.Added[i].Attachment = &r.Attachments[len(p.Existing)+i]
	}
}

// permit reads the policies of the networks, and checks the attachments against them and that of the host.
func (p *Plan) permit(r Request, host policy.Source) error {
	existing := map[string]int{}
	for _, a := range p.Existing {
		existing[a.Network]++
	}
	requested := make([]policy.Attachment, len(p.Added))
	for i, added := range p.Added {
		element := added.Element
		rules, err := policy.Of(added.network)
		if err != nil {
			return err
		}
		p.Added[i].rules = rules
		requested[i] = policy.Attachment{
			Network: element.Name, Interface: element.Interface, Rules: rules, Existing: existing[element.Name],
			StaticIPs: len(added.choice.Addresses) > 0, StaticMAC: len(added.choice.Hardware) > 0, MTU: element.MTU != 0, Narrows: p.narrowing(r) != (allocation.Narrowing{}),
			HasRanges: !added.network.UsesIPAM(func(ipam string) bool { return ipam == "static" }),
		}
		if !r.Operator && i < len(p.Added)-len(r.Defaults) {
			requested[i].Addresses = added.choice.Addresses
			for _, ports := range element.HostPorts() {
				requested[i].HostPorts = append(requested[i].HostPorts, policy.PortRange(ports))
			}
		}
	}
	return policy.Check(r.Identity, host, requested)
}

// CheckInterfaces refuses interface names that the namespace or the record has
// already: an attachment that could not be removed keeps its own.
func (p *Plan) CheckInterfaces(path string, present []netns.Interface) error {
	taken := func(name string) bool {
		return netns.Index(present, name) >= 0 ||
			slices.ContainsFunc(p.Existing, func(a state.Attachment) bool { return a.Interface == name })
	}
	for _, added := range p.Added {
		if a := added.Attachment; taken(a.Interface) {
			return InterfaceExists(*a, path)
		}
	}
	return nil
}

// InterfaceExists is the error of an attachment whose interface name the namespace at path has already.
func InterfaceExists(a state.Attachment, path string) error {
	return errdefs.As(errdefs.Conflict, fmt.Errorf("network %q: interface %s exists already in %s: choose another name", a.Network, a.Interface, path))
}

// Facts are what a plan needs to know beside the request. A plan asks for what it needs, in the order in which it refuses.
type Facts struct {
	// Networks finds networks that can be attached, or says which one cannot be and why.
	Networks func(names []string) ([]*cniconf.Network, error)
	// Policy returns the rules of the host.
	Policy func() (policy.Source, error)
	// PluginDirs are searched for the plugins.
	PluginDirs []string
	// Host is the host.
	Host Host
	// PublishedAddresses returns the addresses that networks publish ports on, with the file that says so.
	PublishedAddresses func() (map[netip.Addr]string, error)
	// Record reads the record of an allocation; the error is state.ErrNotFound if it has none.
	Record func(id string) (state.Record, error)
	// UnpinnedMTU returns the largest MTU that incomplete attachments need on a bridge.
	UnpinnedMTU func(bridge string) int
	// WhyPlugins returns why the plugins of a network are executed that has an executor among its options; nil if it is executed
	// in process.
	WhyPlugins func(list *libcni.NetworkConfigList, executor string) error
	// Joins tells whether the host is to know an attachment by its addresses; apart is whether its network keeps attachments apart. The
	// error is that of a mistake in the rules.
	Joins func(apart bool) (bool, error)
}

// Host are what a plan asks of the host.
type Host interface {
	// LinkMTU returns the MTU of a link; ok is false when there is none of that name.
	LinkMTU(name string) (mtu int, ok bool, err error)
	// UplinkMTU is that of the interfaces by which it sends to elsewhere; 0 if it has no default route.
	UplinkMTU() (int, error)
	// Addressed returns those of its interfaces that have addresses of subnets.
	Addressed() ([]netns.Interface, error)
	// Interfaces returns its interfaces with their addresses.
	Interfaces() ([]netns.Interface, error)
	// GatewayMACs returns its gateways, and those given, by the MACs that it knows of them.
	GatewayMACs(gateways []netip.Addr) (map[string]netip.Addr, error)
	// IPTables is which program iptables is now: "nft", "legacy", or empty if that is unknown or there is none.
	IPTables() string
}
