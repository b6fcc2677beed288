// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// ipv6Sent is what the kernel counts of IPv6 that a namespace has sent.
var ipv6Sent = regexp.MustCompile(`(?m)^(Ip6OutRequests|Icmp6OutMsgs)\s+[1-9]`)

// pluginLinks are the host's ends of pairs in a result.
var pluginLinks = regexp.MustCompile(`"(veth[0-9a-f]{8})"`)

// TestNoLinkLocalAddress: an interface on a network without IPv6 never sends any, whatever executes the network, and has no way around the
// rules of IPv4 at either end. Another network of the allocation has IPv6. A repair switches off what a task has switched on.
func TestNoLinkLocalAddress(t *testing.T) {
	for _, executor := range []string{"auto", "plugins"} {
		t.Run(executor, func(t *testing.T) {
			h := newHost(t)
			t.Setenv("ALLOCNET_EXECUTOR", executor)
			t.Cleanup(func() { _ = os.RemoveAll("/run/four-leases") })
			for name, plugin := range map[string][2]string{"four": {`"type": "bridge", "bridge": "four0"`, "10.96"}, "point": {`"type": "ptp"`, "10.97"}, "mac": {`"type": "macvlan", "master": "uplink"`, "10.98"}} {
				sandbox.WriteFile(t, h.conf+"/80-"+name+".conflist", `{"cniVersion": "1.0.0", "name": "`+name+`", "allocnet": {"ipv6": "off"}, "plugins": [
					{`+plugin[0]+`, "ipam": {"type": "host-local", "dataDir": "/run/four-leases", "subnet": "`+plugin[1]+`.0.0/16"}}]}`)
			}
			t.Cleanup(func() { sandbox.Run(t, "ip", "link", "del", "four0") })
			for _, name := range []string{"v4", "v6"} {
				sandbox.Run(t, "ip", "netns", "add", name)
				t.Cleanup(func() { sandbox.Run(t, "ip", "netns", "del", name) })
			}
			a := h.attach("v4", "--netns", "/run/netns/v4", "--networks", "four,point,mac")
			h.attach("v6", "--netns", "/run/netns/v6", "--networks", "point,storage")
			inside := func(name, command string) string {
				return sandbox.Run(t, "ip", "netns", "exec", name, "sh", "-c", command)
			}
			sandbox.Eventually(t, "IPv6 of another network", func() bool {
				return ipv6Sent.MatchString(inside("v6", "cat /proc/net/snmp6")) && strings.Contains(inside("v6", "ip -6 address show dev net2"), "fe80:")
			})
			if got := inside("v6", "ip -6 address show dev net1"); strings.Contains(got, "fe80:") {
				t.Errorf("beside another network:\n%s", got)
			}
			if got := inside("v4", "cat /proc/net/snmp6"); ipv6Sent.MatchString(got) {
				t.Errorf("it has sent IPv6:\n%s", got)
			}
			if got := inside("v4", "cat /proc/sys/net/ipv6/conf/default/disable_ipv6; ip -6 address show scope link"); got != "0\n" {
				t.Errorf("new interfaces, and addresses: %s", got)
			}
			end := pluginLinks.FindSubmatch(a.Attachments[1].Result)
			if got := sandbox.Run(t, "ip", "-6", "address", "show", "dev", string(end[1])); got != "" {
				t.Errorf("on the host:\n%s", got)
			}
			h.must("check", "v4")
			inside("v4", "sysctl -w net.ipv6.conf.net1.disable_ipv6=0")
			h.refuse(1, []string{"net1 has to be without IPv6"}, "check", "v4")
			h.must("repair", "v4")
			h.must("check", "v4")
			h.must("detach", "v4")
			h.must("detach", "v6")
		})
	}
}

// TestPortsWithoutIPv6: the port of a bridge, which takes what comes to it, has no address of its own. An interface inside has one, and
// so has the host's end of ptp.
func TestPortsWithoutIPv6(t *testing.T) {
	h := newHost(t)
	t.Setenv("ALLOCNET_EXECUTOR", "auto")
	t.Cleanup(func() { _ = os.RemoveAll("/run/ptp-leases") })
	sandbox.WriteFile(t, h.conf+"/80-point.conflist", `{"cniVersion": "1.0.0", "name": "point", "plugins": [
		{"type": "ptp", "ipam": {"type": "host-local", "dataDir": "/run/ptp-leases", "subnet": "10.96.0.0/16"}}]}`)
	a := h.attach("p1", "--networks", "storage,point")
	addresses := func(i int) string {
		end := pluginLinks.FindSubmatch(a.Attachments[i].Result)
		return sandbox.Run(t, "ip", "-6", "address", "show", "dev", string(end[1]))
	}
	sandbox.Eventually(t, "link-local addresses", func() bool {
		return strings.Contains(sandbox.Run(t, "ip", "-n", "p1", "-6", "address", "show", "dev", "net1"), "fe80:") && strings.Contains(addresses(1), "fe80:")
	})
	if got := addresses(0); got != "" {
		t.Errorf("the port has\n%s", got)
	}
	h.must("detach", "p1")
}
