// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootRemoveGroup: links are removed as a group, unless it holds another link.
func TestRootRemoveGroup(t *testing.T) {
	roottest.Require(t)
	const group = 77
	netns, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Close() })
	err = within.Namespace(netns, func(ns.NetNS) error {
		for _, name := range []string{"one", "two", "other"} {
			if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}); err != nil {
				return err
			}
		}
		found, err := links.Existing([]string{"one", "two", "missing"})
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
		if left, err := links.Existing([]string{"one", "two", "other"}); err != nil || len(left) != 3 {
			t.Errorf("%d links are left: %v", len(left), err)
		}
		if err := removeGroup(found, group+1); err != nil {
			t.Error(err)
		}
		if left, err := links.Existing([]string{"one", "two", "other"}); err != nil || len(left) != 1 {
			t.Errorf("%d links are left, want one: %v", len(left), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRootUnremovableLinkBesideAnother: an interface that cannot be removed, such as lo with the name
// of one, which a job with CAP_NET_ADMIN can give it, is the failure of its own network. Others
// are removed, and their leases released.
func TestRootUnremovableLinkBesideAnother(t *testing.T) {
	roottest.Require(t)
	netns, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Close() })
	path := fmt.Sprintf("/proc/self/fd/%d", netns.Fd()) // its own path is that of a thread, which has left it
	err = within.Namespace(netns, func(ns.NetNS) error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetName(lo, "stays-1"), netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "gone-1"}}))
	})
	if err != nil {
		t.Fatal(err)
	}
	released := false
	errs := Commit(t.Context(), nil, []*Changes{
		{links: []link{{path, "gone-1"}}, leases: []func(context.Context) error{func(context.Context) error { released = true; return nil }}},
		{links: []link{{path, "stays-1"}}},
	})
	if errs[0] != nil || !released {
		t.Errorf("gone-1 fails because of stays-1: %v, its lease is released: %t", errs[0], released)
	}
	if errs[1] == nil || !strings.Contains(errs[1].Error(), `"stays-1"`) {
		t.Errorf("the removal of stays-1 gives %v, want an error that names it", errs[1])
	}
	_ = within.Namespace(netns, func(ns.NetNS) error {
		if left, err := links.Existing([]string{"gone-1", "stays-1"}); err != nil || len(left) != 1 {
			t.Errorf("%d links are left, want stays-1: %v", len(left), err)
		}
		return nil
	})
}
