// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootLeasesOfAFailedADD are released by it: there may be no DEL, and the next ADD of the
// attachment would be refused. Here the interface does not exist.
func TestRootLeasesOfAFailedADD(t *testing.T) {
	roottest.Require(t)
	host, inside := testNamespace(t), testNamespace(t)
	err := within.Namespace(host, func(ns.NetNS) error { // on one thread
		return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "master"}})
	})
	if err != nil {
		t.Fatal(err)
	}
	const unreachable = `, "routes": [{"dst": "10.9.0.0/16", "gw": "203.0.113.1"}]`
	for name, keys := range map[string][2]string{
		"bridge": {`"bridge": "br"`, unreachable}, "macvlan": {`"master": "master"`, unreachable}, "ptp": {`"ipMasq": true, "ipMasqBackend": "ipfw"`, ""},
	} {
		dir := t.TempDir()
		conf := fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", "type": %q, %s, "ipam": {"type": "host-local", "subnet": "192.0.2.0/24", "dataDir": %q%s}}`, name, keys[0], dir, keys[1])
		err := within.Namespace(host, func(ns.NetNS) error {
			_, err := (&Chain{}).ExecPlugin(t.Context(), name, conf, []string{"CNI_COMMAND=ADD", "CNI_CONTAINERID=c", fmt.Sprint("CNI_NETNS=/proc/self/fd/", inside.Fd()), "CNI_IFNAME=" + name + "0"})
			return err
		})
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		last, failed := os.ReadFile(filepath.Join(dir, "n", "last_reserved_ip.0"))
		if failed != nil {
			t.Fatalf("%s: there was no lease: %v, after %v", name, failed, err)
		}
		if exists(filepath.Join(dir, "n", string(last))) {
			t.Errorf("%s: the lease of %s is left", name, last)
		}
	}
}

func testNamespace(t *testing.T) ns.NetNS {
	t.Helper()
	netns, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Close() })
	return netns
}
