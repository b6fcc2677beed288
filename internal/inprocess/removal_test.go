// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"strings"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
)

// TestRemoveGroup: links are removed as a group, unless it holds another link.
func TestRemoveGroup(t *testing.T) {
	const group = 77
	netns, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Close() })
	err = within(netns, func(ns.NetNS) error {
		for _, name := range []string{"one", "two", "other"} {
			if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}); err != nil {
				return err
			}
		}
		found, err := existing([]string{"one", "two", "missing"})
		if err != nil {
			return err
		}
		other, err := netlink.LinkByName("other")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetGroup(other, group); err != nil {
			return err
		}
		if err := removeGroup(found, group); err == nil || !strings.Contains(err.Error(), `"other"`) {
			t.Errorf("the removal of a group with another link gives %v", err)
		}
		if left, err := existing([]string{"one", "two", "other"}); err != nil || len(left) != 3 {
			t.Errorf("%d links are left: %v", len(left), err)
		}
		if err := removeGroup(found, group+1); err != nil {
			t.Error(err)
		}
		if left, err := existing([]string{"one", "two", "other"}); err != nil || len(left) != 1 {
			t.Errorf("%d links are left, want one: %v", len(left), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
