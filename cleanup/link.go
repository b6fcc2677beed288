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
	// netns is the namespace that it is in; empty for the host's.
	netns string
	// back is whether it was moved there from the host.
	back bool
}

func (l *link) remove() error {
	if l.netns == "" {
		return netns.RemoveLink(l.name, l.kind, l.mac)
	}
	ns, err := netns.Open(l.netns)
	if errors.Is(err, netns.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(ns.RemoveInterface(l.name, l.back), ns.Close())
}

// scanIfbs lists bandwidth's devices.
func scanIfbs() (found Found, err error) {
	names, err := netns.Links("ifb")
	for _, name := range names {
		if ifbForm.MatchString(name) {
			found.Objects = append(found.Objects, Object{
				Kind: Link, key: name, Where: "link " + name, link: &link{name: name, kind: "ifb"},
			})
		}
	}
	return found, err
}

// linksOf returns the interface of an attachment and the host's ends of its
// pairs, as its result names them, that are there. A bridge is not the
// attachment's.
func linksOf(a state.Allocation, attachment state.Attachment, alive bool) []Object {
	owner := ownerOf(attachment.Network, attachment.ContainerID, attachment.Interface)
	var list []Object
	if alive {
		list = append(list, Object{
			Kind: Link, Owner: owner, Where: "link " + attachment.Interface + " in " + a.Netns,
			link: &link{name: attachment.Interface, netns: a.Netns, back: usesPlugin(attachment, "host-device")},
		})
	}
	var result struct {
		Interfaces []struct{ Name, Mac, Sandbox string }
	}
	if json.Unmarshal(attachment.Result, &result) != nil {
		return list
	}
	for _, i := range result.Interfaces {
		if i.Sandbox == "" && netns.HasLink(i.Name, "veth", i.Mac) {
			list = append(list, Object{
				Kind: Link, Owner: owner, Where: "link " + i.Name,
				link: &link{name: i.Name, kind: "veth", mac: i.Mac},
			})
		}
	}
	return list
}
