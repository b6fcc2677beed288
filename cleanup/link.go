// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

type link struct {
	name string
	// kind and mac tell it from another of the same name on the host.
	kind, mac string
	// in is the allocation in whose namespace it is; nil: it is in the host's.
	in *state.Allocation
}

// linkPattern is a link that a plugin makes on the host for one attachment.
type linkPattern struct {
	linkType string
	name     hashedName
}

func (p linkPattern) String() string { return p.linkType + " links" }

func (p linkPattern) scan(k kernel, kind Kind) (found scanResult, err error) {
	names, err := k.links(p.linkType)
	for _, name := range names {
		if p.name.matches(name) {
			found.Objects = append(found.Objects, Object{
				Kind: kind, key: name, Where: "link " + name, link: &link{name: name, kind: p.linkType},
			})
		}
	}
	return found, err
}

func (l *link) remove(k kernel) error {
	if l.in == nil {
		return k.removeLink(l.name, l.kind, l.mac)
	}
	ns, err := state.OpenNamespace(*l.in, k.open) // the path may lead to another one by now
	if errors.Is(err, netns.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(ns.RemoveInterface(l.name), ns.Close())
}

// linksOf returns the interface of an attachment, if the namespace may have it, and the host's ends of its pairs.
func (h *host) linksOf(a state.Allocation, attachment state.Attachment, inside bool) ([]Object, error) {
	owner := ownerOf(attachment.Network, attachment.ContainerID, attachment.Interface)
	var list []Object
	if h.catalog.movesLink(attachment) {
		list = append(list, deviceOf(a, attachment, owner))
	} else if inside {
		list = append(list, Object{
			Kind: Link, Owner: owner, Where: "link " + attachment.Interface + " in " + a.Netns,
			link: &link{name: attachment.Interface, in: &a},
		})
	}
	ends, err := h.hostEnds(attachment)
	for _, end := range ends {
		list = append(list, Object{Kind: Link, Owner: owner, Where: "link " + end.name, link: end})
	}
	return list, err
}

// hostEnds returns the host's ends of an attachment's pairs that are there, and the device of its limits, under the names of
// its result or, with their MACs, under others.
func (h *host) hostEnds(a state.Attachment) (ends []*link, err error) {
	macs := hostMACs(a)
	for _, name := range slices.Sorted(maps.Keys(macs)) {
		kind := cmp.Or(h.catalog.kindOf(name, ownerOf(a.Network, a.ContainerID, a.Interface)), "veth")
		present, err := h.kernel.findLink(name, kind, macs[name])
		if err != nil {
			return ends, err
		}
		if present != "" {
			ends = append(ends, &link{name: present, kind: kind, mac: macs[name]})
		}
	}
	return ends, nil
}

// kindOf is the kind of a link whose name a plugin makes of the attachment; empty if none does.
func (c catalog) kindOf(name string, owner Owner) string {
	for l := range c.leaks() {
		for _, p := range l.links {
			if p.name.of(owner) == name {
				return p.linkType
			}
		}
	}
	return ""
}

type resultInterface struct{ Name, Mac, Sandbox string }

func resultInterfaces(a state.Attachment) []resultInterface {
	var result struct{ Interfaces []resultInterface }
	_ = json.Unmarshal(a.Result, &result)
	return result.Interfaces
}

// hostMACs returns the MACs of the links on the host that the result of an attachment has, by their names.
func hostMACs(a state.Attachment) map[string]string {
	macs := map[string]string{}
	for _, i := range resultInterfaces(a) {
		if i.Sandbox == "" {
			macs[i.Name] = i.Mac
		}
	}
	return macs
}

// device is one of the host that a plugin has moved into the namespace of an allocation.
type device struct {
	netns.Device
	in state.Allocation
}

// deviceOf returns that of an attachment, wherever it is by now.
func deviceOf(a state.Allocation, attachment state.Attachment, owner Owner) Object {
	d := &device{netns.Device{
		Name: attachment.Device, Interface: attachment.Interface, Index: attachment.DeviceIndex, Kind: attachment.DeviceKind,
		Restore: restorer(savedSettings(attachment.ConfList, owner)),
	}, a}
	if confs := pluginConfs(attachment.ConfList); d.Name == "" && len(confs) > 0 {
		d.Name = confs[0].Device
	}
	for _, i := range resultInterfaces(attachment) {
		if i.Sandbox != "" && i.Name == attachment.Interface {
			d.MAC = i.Mac
		}
	}
	return Object{Kind: Link, Owner: owner, Where: "device " + cmp.Or(d.Name, d.Interface) + " in " + a.Netns, link: d}
}

func (d *device) remove(k kernel) error {
	ns, err := state.OpenNamespace(d.in, k.open)
	if errors.Is(err, netns.ErrMissing) {
		return k.restoreDevice(d.Device)
	}
	if err != nil {
		return err
	}
	return errors.Join(ns.ReturnDevice(d.Device), ns.Close())
}
