// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestMissingMaster: every command that knows networks says that the master is missing,
// and an attach is refused once.
func TestMissingMaster(t *testing.T) {
	h := newHost(t)
	sandbox.WriteFile(t, h.conf+"/84-lost.conflist", `{"cniVersion": "1.0.0", "name": "lost", "plugins": [{"type": "macvlan", "master": "eth9"}]}`)
	const want = `network "lost": the host has no link eth9`
	h.refuse(2, []string{want}, "attach", "l1", "--primary", "lost")
	for _, command := range [][]string{{"networks"}, {"networks", "lost"}, {"doctor"}} {
		if o := h.allocnet(command...); o.code == 0 || !strings.Contains(o.stdout, want) {
			t.Errorf("%v: exit code %d, and not %q in\n%s%s", command, o.code, want, o.stdout, o.stderr)
		}
	}
}

// TestMasterOfAnotherNetwork: the first attach on a host may select a network whose master
// is the bridge that an earlier network creates. macvlan makes the bridge promiscuous, and
// CHECK of the bridge plugin fails if the configuration does not say so.
func TestMasterOfAnotherNetwork(t *testing.T) {
	h := newHost(t)
	sandbox.WriteFile(t, h.conf+"/84-lan.conflist", `{"cniVersion": "1.0.0", "name": "lan", "plugins": [{"type": "bridge", "bridge": "lan0", "promiscMode": true, "ipam": {"type": "static", "addresses": [{"address": "10.98.6.1/24"}]}}]}`)
	sandbox.WriteFile(t, h.conf+"/85-on-lan.conflist", `{"cniVersion": "1.0.0", "name": "on-lan", "plugins": [{"type": "macvlan", "master": "lan0", "ipam": {"type": "static", "addresses": [{"address": "10.98.6.2/24"}]}}]}`)
	defer sandbox.Run(t, "ip", "link", "delete", "lan0")
	h.refuse(2, []string{`network "on-lan": the host has no link lan0: select network lan, which creates it`}, "attach", "m1", "--primary=", "--networks", "on-lan,lan")
	h.attach("m1", "--primary", "lan", "--networks", "on-lan")
	h.must("check", "m1")
	h.must("detach", "m1")
}

// TestRequestedAddress: an address that host-local would not give is refused once, with
// the reason.
func TestRequestedAddress(t *testing.T) {
	h := newHost(t)
	sandbox.WriteFile(t, h.conf+"/85-chosen.conflist", `{"cniVersion": "1.0.0", "name": "chosen", "plugins": [
		{"type": "bridge", "bridge": "storage0", "capabilities": {"ips": true},
		 "ipam": {"type": "host-local", "dataDir": "/run/chosen-leases", "ranges": [[{"subnet": "10.98.5.0/24", "rangeStart": "10.98.5.10", "rangeEnd": "10.98.5.20"}]]}}]}`)
	defer os.RemoveAll("/run/chosen-leases")
	element := func(address string) string {
		return fmt.Sprintf(`[{"name": "chosen", "ips": [%q]}]`, address)
	}
	a := h.attach("c1", "--networks", element("10.98.5.12"))
	if got := a.Attachments[0].Addresses[0].String(); got != "10.98.5.12/24" {
		t.Errorf("has %s", got)
	}
	for address, want := range map[string]string{
		"10.98.5.12": "has a lease", "10.98.5.9": "want one of 10.98.5.10 to 10.98.5.20", "10.98.6.12": "is not in a range",
	} {
		h.refuse(2, []string{`ips of network "chosen" as net1: ` + address + " ", want}, "attach", "c2", "--primary=", "--networks", element(address))
	}
	h.must("detach", "c1")
}
