// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package systemd

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestNetworkd: when systemd-networkd configures an interface again it removes routes of the agent, and fewer with
// the file of docs/cluster.md.
func TestNetworkd(t *testing.T) {
	text, err := os.ReadFile("../../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	file := regexp.MustCompile("(?s)`(/etc/systemd/networkd\\S+)`:\n```\\w+\n(.*?)```").FindStringSubmatch(string(text))
	if file == nil {
		t.Fatal("docs/cluster.md has no file of systemd-networkd")
	}
	m := newMachine(t)
	m.must("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth9")
	m.must("ip", "link", "set", "eth9", "up")
	configure := func(address string, command ...string) {
		m.write("/etc/systemd/network/10-eth0.network", "[Match]\nName=eth0\n[Network]\nLinkLocalAddressing=no\nAddress="+address+"/24\n")
		m.must(command...)
		m.await("eth0 has "+address, func() bool {
			return strings.Contains(m.must("ip", "-o", "-4", "address", "show", "dev", "eth0"), " "+address+"/")
		})
	}
	left := func() string {
		return m.must("ip", "-4", "route", "show", "proto", "allocnet") + m.must("ip", "-6", "route", "show", "proto", "allocnet")
	}
	add := func() {
		m.must("ip", "route", "replace", "10.110.7.0/26", "via", "192.0.2.200", "proto", "allocnet")
		m.must("ip", "route", "replace", "fd00:110::40/122", "via", "fe80::2", "dev", "eth0", "proto", "allocnet")
	}
	configure("192.0.2.1", "systemctl", "restart", "systemd-networkd")
	add()
	configure("192.0.2.2", "networkctl", "reload")
	m.await("all routes are removed", func() bool { return left() == "" })
	m.write(file[1], file[2])
	configure("192.0.2.3", "systemctl", "restart", "systemd-networkd")
	add()
	configure("192.0.2.4", "networkctl", "reload")
	if routes := left(); !strings.HasPrefix(routes, "fd00:110::40/122 via fe80::2 dev eth0") {
		t.Errorf("with %s, the route of IPv6 is not the only one that is left:\n%s", file[1], routes)
	}
}
