// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"encoding/json"
	"errors"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// link is a network device.
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

// hostEnds returns the host's ends of an attachment's pairs that are there, under the names of its result or, with their
// MACs, under others.
func (h *host) hostEnds(a state.Attachment) (ends []*link, err error) {
	var result struct {
		Interfaces []struct{ Name, Mac, Sandbox string }
	}
	if json.Unmarshal(a.Result, &result) != nil {
		return nil, nil
	}
	for _, i := range result.Interfaces {
		if i.Sandbox != "" {
			continue
		}
		name, err := h.kernel.findLink(i.Name, "veth", i.Mac)
		if err != nil {
			return ends, err
		}
		if name != "" {
			ends = append(ends, &link{name: name, kind: "veth", mac: i.Mac})
		}
	}
	return ends, nil
}
