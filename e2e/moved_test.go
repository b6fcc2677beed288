// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestMovedAddress: a neighbour that knows an address by the MAC of its earlier allocation learns that of the next one, without
// sending anything.
func TestMovedAddress(t *testing.T) {
	h := newHost(t)
	h.useDist()
	h.attach("peer", "--networks", "storage")
	defer h.must("detach", "peer")
	const chosen = `[{"name": "storage", "ips": ["10.89.0.77/16"]}]`
	known := func() string {
		return sandbox.Run(t, "ip", "-n", "peer", "neighbour", "show", "10.89.0.77")
	}
	for i := range 2 {
		id := fmt.Sprint("moved-", i)
		a := h.attach(id, "--networks", chosen)
		mac := a.Attachments[0].MAC
		if i == 0 {
			h.must("exec", "peer", "--", "bash", "-c", "echo x > /dev/udp/10.89.0.77/9") // it has to ask
		}
		sandbox.Eventually(t, "the neighbour knows "+mac, func() bool { return strings.Contains(known(), mac) })
		h.must("detach", id)
	}
	h.awaitProcesses()
}

// TestStrictARP: of two attachments in one subnet, each answers for its own address alone.
func TestStrictARP(t *testing.T) {
	h := newHost(t)
	h.useDist()
	sandbox.WriteFile(t, h.conf+"/20-storage.conflist", strings.Replace(read(t, h.conf+"/20-storage.conflist"), `"ipv6": "off"`, `"ipv6": "off", "arp": "strict"`, 1))
	a := h.attach("strict-1", "--networks", "storage,storage@net2")
	defer h.must("detach", "strict-1")
	for _, n := range a.Attachments {
		for name, want := range map[string]string{"arp_ignore": "1", "arp_announce": "2"} {
			if got := strings.TrimSpace(h.must("exec", "strict-1", "--", "cat", "/proc/sys/net/ipv4/conf/"+n.Interface+"/"+name)); got != want {
				t.Errorf("%s of %s is %s, want %s", name, n.Interface, got, want)
			}
		}
	}
	h.attach("peer", "--networks", "storage")
	defer h.must("detach", "peer")
	for _, n := range a.Attachments {
		address := n.Addresses[0].Addr().String()
		sandbox.Run(t, "ip", "-n", "peer", "neighbour", "flush", "all")
		h.must("exec", "peer", "--", "bash", "-c", "echo x > /dev/udp/"+address+"/9") // it has to ask
		var known string
		sandbox.Eventually(t, "there is an answer for "+address, func() bool {
			known = sandbox.Run(t, "ip", "-n", "peer", "neighbour", "show", address)
			return strings.Contains(known, "lladdr")
		})
		if !strings.Contains(known, n.MAC) {
			t.Errorf("%s is known as %s, want %s of %s", address, known, n.MAC, n.Interface)
		}
	}
	sandbox.Run(t, "ip", "netns", "exec", "strict-1", "sysctl", "-qw", "net.ipv4.conf.net2.arp_ignore=0")
	if o := h.allocnet("check", "strict-1"); o.code != 1 || !strings.Contains(o.stdout+o.stderr, "arp_ignore") {
		t.Errorf("check after a task has changed it: exit code %d, %s%s", o.code, o.stdout, o.stderr)
	}
	h.must("repair", "strict-1")
	h.must("check", "strict-1")
}
