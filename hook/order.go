// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/state"
)

// inOrder calls do for 0 to n-1, all at the same time, except that do(i) starts only
// when every do(j) for j in dependencies(i) has returned. When the context ends, no
// dependency is waited for any more; do is still called for each. The dependencies must
// not form a cycle.
func inOrder(ctx context.Context, n int, dependencies func(i int) []int, do func(i int)) {
	done := make([]chan struct{}, n)
	waitFor := make([][]int, n) // computed before do changes anything
	for i := range n {
		done[i], waitFor[i] = make(chan struct{}), dependencies(i)
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			defer close(done[i])
			for _, j := range waitFor[i] {
				select {
				case <-done[j]:
				case <-ctx.Done():
				}
			}
			do(i)
		})
	}
	all.Wait()
}

// order fills DependsOn. Attachments that set a default route follow each other, the
// primary first, so that the result does not depend on which plugin is quicker. An
// attachment whose master is an interface in the namespace follows that interface's, and
// one whose master is a bridge follows those that may create the bridge.
func (p *plan) order() {
	previous := ""
	candidates := slices.Clone(p.existing)
	for i, added := range p.added {
		a, list := added.attachment, added.network.List
		if setsDefaultRoute(list) {
			if previous != "" {
				a.DependsOn = append(a.DependsOn, previous)
			}
			previous = a.Interface
		}
		a.DependsOn = append(a.DependsOn, masterInterfaces(list, candidates)...)
		a.DependsOn = append(a.DependsOn, bridgeInterfaces(list, p.added[:i])...)
		candidates = append(candidates, *a)
	}
}

// predecessors returns the indexes of the attachments that attachment i depends on.
func predecessors(attachments []state.Attachment, i int) []int {
	return indexes(attachments, func(other state.Attachment) bool {
		return dependsOn(attachments[i], other)
	})
}

// successors returns the indexes of the attachments that depend on attachment i.
func successors(attachments []state.Attachment, i int) []int {
	return indexes(attachments, func(other state.Attachment) bool {
		return dependsOn(other, attachments[i])
	})
}

// dependsOn tells whether a came after other. A dependency names an interface, which a
// later attachment may have by now: that one has a greater Index, and a does not depend
// on it. So the dependencies of no record form a cycle, whatever it says.
func dependsOn(a, other state.Attachment) bool {
	return other.Index < a.Index && slices.Contains(a.DependsOn, other.Interface)
}

func indexes(attachments []state.Attachment, match func(state.Attachment) bool) []int {
	var found []int
	for i, a := range attachments {
		if match(a) {
			found = append(found, i)
		}
	}
	return found
}

// plainPlugins set no routes of their own: only their IPAM's.
var plainPlugins = []string{
	"bridge", "ptp", "macvlan", "ipvlan", "vlan", "host-device", "tap", "dummy", "loopback",
	"portmap", "firewall", "tuning", "bandwidth",
}

// setsDefaultRoute tells whether a network sets a default route, or may: unknown
// plugins may.
func setsDefaultRoute(list *libcni.NetworkConfigList) bool {
	return slices.ContainsFunc(list.Plugins, func(p *libcni.PluginConfig) bool {
		conf, err := onrecord.DecodePlugin(p)
		if err != nil || !slices.Contains(plainPlugins, conf.Type) || conf.IsDefaultGateway {
			return true
		}
		switch conf.IPAM.Type {
		case "", "host-local", "static":
		default: // the router option of DHCP, or an unknown IPAM plugin
			return true
		}
		for _, route := range conf.IPAM.Routes {
			if to, err := netip.ParsePrefix(route.Dst); err == nil && to.Bits() == 0 {
				return true
			}
		}
		return false
	})
}

// masterInterfaces returns the interfaces among those of the candidates that are masters
// in the network.
func masterInterfaces(list *libcni.NetworkConfigList, candidates []state.Attachment) []string {
	var masters []string
	for _, p := range list.Plugins {
		conf, err := onrecord.DecodePlugin(p)
		if err != nil || !conf.LinkInContainer {
			continue
		}
		for _, a := range candidates {
			if a.Interface == conf.Master {
				masters = append(masters, a.Interface)
			}
		}
	}
	return masters
}

// bridgeInterfaces returns the interfaces of the earlier attachments that create a bridge
// which is a master in the network.
func bridgeInterfaces(list *libcni.NetworkConfigList, candidates []planned) []string {
	var interfaces []string
	for _, p := range list.Plugins {
		conf, err := onrecord.DecodePlugin(p)
		if err != nil || conf.Master == "" || conf.LinkInContainer {
			continue
		}
		for _, e := range candidates {
			if createsBridge(e.network.List, conf.Master) {
				interfaces = append(interfaces, e.attachment.Interface)
			}
		}
	}
	return interfaces
}

func createsBridge(list *libcni.NetworkConfigList, name string) bool {
	return slices.ContainsFunc(list.Plugins, func(p *libcni.PluginConfig) bool {
		conf, err := onrecord.DecodePlugin(p)
		return err == nil && conf.Type == "bridge" && conf.Link() == name
	})
}
