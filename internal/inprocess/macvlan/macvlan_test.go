// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package macvlan

import (
	"fmt"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/sublink"
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
	ended := &plugin.Call{Ctx: t.Context(), Changes: &plugin.Changes{}, ContainerID: "c", IfName: "net1", Netns: fmt.Sprint("/proc/self/fd/", netns.Fd()), Network: "n", Config: conf}
	other := &plugin.Call{ContainerID: "c", IfName: "net2"}
	link, err := (&config{}).link(ended, netns)
	if err != nil {
		t.Fatal(err)
	}
	err = within.Namespace(netns, func(ns.NetNS) error {
		for _, name := range []string{link.Name, sublink.NewLinkName(other)} {
			if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := Type.Del(ended); err != nil {
		t.Fatal(err)
	}
	errs := plugin.Commit(t.Context(), nil, []*plugin.Changes{ended.Changes})
	err = within.Namespace(netns, func(ns.NetNS) error {
		left, err := links.Existing([]string{link.Name, sublink.NewLinkName(other)})
		if err != nil || errs[0] != nil || len(left) != 1 || left[0].Attrs().Name != sublink.NewLinkName(other) {
			t.Errorf("%v are left, %v", left, errs[0])
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
