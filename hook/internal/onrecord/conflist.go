// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package onrecord reads what is on record of an attachment: its conflist, the result of its plugins, what was observed of it,
// and the addresses to request when it is attached again. It does no I/O.
package onrecord

import (
	"fmt"
	"slices"

	"github.com/containernetworking/cni/libcni"
	types "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/state"
)

// List returns the conflist of an attachment's record.
func List(a state.Attachment) (*libcni.NetworkConfigList, error) {
	list, err := cniconf.ParseList(a.ConfList)
	if err != nil {
		return nil, fmt.Errorf("recorded conflist: %w", err)
	}
	return list, nil
}

// HostEnd returns the end on the host of the veth pair of an attachment with this conflist, which plugins that make one report
// before the end inside; nil if they report none.
func HostEnd(a state.Attachment, list *libcni.NetworkConfigList) (*types.Interface, error) {
	result, err := ParseResult(a.Result)
	if err != nil {
		return nil, err
	}
	inside := slices.IndexFunc(result.Interfaces, func(i *types.Interface) bool { return i.Sandbox != "" && i.Name == a.Interface })
	if inside < 1 {
		return nil, nil // there is none
	}
	end := result.Interfaces[inside-1]
	shared := slices.ContainsFunc(cniconf.Chain(list), func(p cniconf.Plugin) bool { return p.Link() == end.Name })
	if end.Sandbox != "" || end.Mac == "" || shared {
		return nil, nil // as above
	}
	return end, nil
}

// InnerMasterPlugins know linkInContainer. Others ignore the key, and what they make on the host
// is right.
var InnerMasterPlugins = []string{"ipvlan", "macvlan", "vlan"}

// Bridges returns the bridges of a network, with the MTU of its ports.
func Bridges(list *libcni.NetworkConfigList) map[string]int {
	bridges := map[string]int{}
	for _, p := range cniconf.Chain(list) {
		if p.Type == "bridge" && p.Bridge != "" {
			bridges[p.Bridge] = p.FixedMTU()
		}
	}
	return bridges
}

// SetupBatch is the batch of Setup.
var SetupBatch = state.Batch{Kind: state.BatchSetup}

// OfBatch returns the attachments of a batch.
func OfBatch(attachments []state.Attachment, b state.Batch) []state.Attachment {
	return slices.DeleteFunc(slices.Clone(attachments), func(a state.Attachment) bool { return a.Batch != b })
}

// MasterInterfaces returns the interfaces among those of the candidates that are masters
// in a network with these plugins.
func MasterInterfaces(chain []cniconf.Plugin, candidates []state.Attachment) []string {
	var masters []string
	for _, p := range chain {
		if !p.LinkInContainer {
			continue
		}
		for _, a := range candidates {
			if a.Interface == p.Master {
				masters = append(masters, a.Interface)
			}
		}
	}
	return masters
}
