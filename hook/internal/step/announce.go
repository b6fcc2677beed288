// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"encoding/json"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/state"
)

// announce tells the hosts of the link of an attachment which addresses it has: another one may have had them a moment before, and
// what neighbours remember would lead nowhere for some seconds. Nothing of it keeps an attachment.
var announce = step{Finished: announceAdded, Restored: announceRestored}

// announcing are the types whose interfaces are on a link with others.
var announcing = []string{"bridge", "macvlan", "ipvlan", "vlan", "host-device"}

func announceAdded(w *Work, p *plan.Plan) error {
	for _, added := range p.Added {
		announcePublished(w, *added.Attachment, added.List)
		announceAddresses(w, *added.Attachment, added.List, false)
	}
	return nil
}

func announceRestored(w *Work, a *state.Attachment) error {
	if list, err := onrecord.List(*a); err == nil { // it was read a moment before
		announcePublished(w, *a, list)
		announceAddresses(w, *a, list, true)
	}
	return nil
}

// announceAddresses announces them at once, and those that are likely to have moved again, while the caller no longer waits.
func announceAddresses(w *Work, a state.Attachment, list *libcni.NetworkConfigList, moved bool) {
	addresses, moves := announced(a, list)
	if len(addresses) == 0 {
		return
	}
	ns, err := w.Namespace()
	if err == nil {
		err = w.Host.Announce(ns, a.Interface, addresses)
	}
	if err != nil {
		w.log(a).Debug("its addresses are not announced", "error", err)
		return
	}
	if moves || moved {
		w.AnnounceAgain(w.Record.Allocation.Netns, a.Interface, addresses)
	}
}

// hostNetns is the namespace of a thread of the process that announces: the host's.
const hostNetns = "/proc/thread-self/ns/net"

// announcePublished announces again the addresses that the host has for the ports of an attachment, which the plugin portmap has
// announced once: another host may have had them a moment before.
func announcePublished(w *Work, a state.Attachment, list *libcni.NetworkConfigList) {
	if a.CapabilityArgs["portMappings"] == nil {
		return
	}
	for _, p := range list.Plugins {
		var conf struct {
			PublishAddress cniconf.PublishAddress `json:"publishAddress"`
		}
		if json.Unmarshal(p.Bytes, &conf) == nil && len(conf.PublishAddress.Addresses) > 0 {
			w.AnnounceAgain(hostNetns, conf.PublishAddress.Interface, conf.PublishAddress.Addresses)
		}
	}
}

// announced returns the addresses of an attachment that others of its link may know, and whether these are ones that move: that are
// asked for, or of a pool of allocnet-ipam, where a job keeps its own.
func announced(a state.Attachment, list *libcni.NetworkConfigList) (addresses []netip.Addr, moves bool) {
	if !slices.Contains(announcing, list.Plugins[0].Network.Type) {
		return nil, false
	}
	result, err := onrecord.ParseResult(a.Result)
	if err != nil {
		return nil, false
	}
	for _, address := range onrecord.Addresses(result) {
		addresses = append(addresses, address.Addr())
	}
	return addresses, a.CapabilityArgs["ips"] != nil || list.Plugins[0].Network.IPAM.Type == "allocnet-ipam"
}
