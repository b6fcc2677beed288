// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootLeasesOfAFailedADD are released by it: there may be no DEL, and the next ADD of the
// attachment would be refused. Here the interface does not exist.
func TestRootLeasesOfAFailedADD(t *testing.T) {
	roottest.Require(t)
	netns, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Close() })
	conf := types.NetConf{IPAM: types.IPAM{Type: "host-local"}}
	for name, add := range map[string]func(*call) error{
		"bridge": func(c *call) error {
			return (&bridgeConfig{NetConf: conf}).configure(c, netns, &netlink.Bridge{}, &current.Result{})
		},
		"macvlan": func(c *call) error { return (&macvlanConfig{NetConf: conf}).configure(c, netns, &current.Result{}) },
		"ptp": func(c *call) error {
			return within.Namespace(netns, func(ns.NetNS) error { _, err := addPTP(c); return err }) // it turns forwarding on
		},
	} {
		dir := t.TempDir()
		c := &call{ctx: t.Context(), containerID: "c", ifName: "eth0", netns: "/no/such/namespace", network: "n", version: "1.0.0", config: fmt.Appendf(nil,
			`{"cniVersion": "1.0.0", "name": "n", "type": %q, "ipam": {"type": "host-local", "subnet": "192.0.2.0/24", "dataDir": %q}}`, name, dir)}
		if err := add(c); err == nil {
			t.Errorf("%s: no error", name)
		}
		last, err := os.ReadFile(filepath.Join(dir, "n", "last_reserved_ip.0"))
		if err != nil {
			t.Fatalf("%s: there was no lease: %v", name, err)
		}
		if exists(filepath.Join(dir, "n", string(last))) {
			t.Errorf("%s: the lease of %s is left", name, last)
		}
	}
}
