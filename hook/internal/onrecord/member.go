// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"fmt"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/state"
)

// Member returns an attachment as rules of isolation see it, but for the level of its network. Without a link its packets do not
// pass the host, or it is not attached.
func Member(of state.Allocation, a state.Attachment) (isolation.Member, error) {
	m := isolation.Member{ID: a.ContainerID, Network: a.Network, Namespace: of.Identity.Namespace, Job: of.Identity.Job, Group: of.Identity.Group}
	if a.Phase != state.Attached || a.Result == nil {
		return m, nil
	}
	result, err := ParseResult(a.Result)
	if err != nil {
		return m, err
	}
	for _, p := range InterfaceAddresses(result, a.Interface) {
		m.Addresses = append(m.Addresses, p.Addr())
	}
	list, err := List(a)
	if err != nil {
		return m, err
	}
	m.Link, err = routedBy(a, list)
	return m, err
}

// routedBy returns the interface of the host by which packets of an attachment are routed; empty: there is none, or it is not known.
func routedBy(a state.Attachment, list *libcni.NetworkConfigList) (string, error) {
	for _, p := range cniconf.Chain(list) {
		switch {
		case p.Type == "bridge" && p.VLAN != 0:
			return fmt.Sprintf("%s.%d", p.Bridge, p.VLAN), nil
		case p.Type == "bridge":
			return p.Bridge, nil
		case p.Type == "ptp":
			end, err := HostEnd(a, list)
			if err != nil || end == nil {
				return "", err
			}
			return end.Name, nil
		}
	}
	return "", nil
}
