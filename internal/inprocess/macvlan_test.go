// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"fmt"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootKilledBeforeMacvlanHasItsName: DEL removes a link that ADD has made and not yet renamed, and
// none of another attachment.
func TestRootKilledBeforeMacvlanHasItsName(t *testing.T) {
	roottest.Require(t)
	netns, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Close() })
	conf := []byte(`{"cniVersion": "1.0.0", "name": "n", "type": "macvlan"}`)
	ended := &call{ctx: t.Context(), changes: &Changes{}, containerID: "c", ifName: "net1", netns: fmt.Sprint("/proc/self/fd/", netns.Fd()), network: "n", config: conf}
	other := &call{containerID: "c", ifName: "net2"}
	link, err := (&macvlanConfig{}).link(ended, netns)
	if err != nil {
		t.Fatal(err)
	}
	err = within.Namespace(netns, func(ns.NetNS) error {
		for _, name := range []string{link.Name, newLinkName(other)} {
			if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := delMacvlan(ended); err != nil {
		t.Fatal(err)
	}
	errs := []error{nil}
	removeLinks(t.Context(), []*Changes{ended.changes}, errs)
	err = within.Namespace(netns, func(ns.NetNS) error {
		left, err := links.Existing([]string{link.Name, newLinkName(other)})
		if err != nil || errs[0] != nil || len(left) != 1 || left[0].Attrs().Name != newLinkName(other) {
			t.Errorf("%v are left, %v", left, errs[0])
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
