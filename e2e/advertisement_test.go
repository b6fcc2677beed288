// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// advertiser is the namespace of a router on the network storage.
const advertiser = "/run/netns/advertiser"

var advertisedPrefix = netip.MustParseAddr("fd00:99::")

// newAdvertiser returns a host with that router, and with two more networks: v6, with an
// IPv6 default route, and slaac, on the bridge of storage, which accepts advertisements.
func newAdvertiser(t *testing.T) *host {
	t.Helper()
	h := newHost(t)
	sandbox.WriteFile(t, h.conf+"/81-v6.conflist", `{"cniVersion": "1.0.0", "name": "v6", "plugins": [
		{"type": "bridge", "bridge": "fixed0", "ipam": {"type": "host-local", "dataDir": "/run/v6-leases", "ranges": [[{"subnet": "fd00:96::/64"}]], "routes": [{"dst": "::/0"}]}}]}`)
	sandbox.WriteFile(t, h.conf+"/82-slaac.conflist", `{"cniVersion": "1.0.0", "name": "slaac", "allocnet": {"acceptRA": true}, "plugins": [
		{"type": "bridge", "bridge": "storage0", "ipam": {"type": "host-local", "dataDir": "/run/v6-leases", "subnet": "10.97.0.0/16"}}]}`)
	if _, err := netns.Create(netns.DefaultDir, "advertiser"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sandbox.Run(t, "ip", "-n", "advertiser", "link", "del", "r0")
		sandbox.Run(t, "ip", "netns", "del", "advertiser")
		_ = os.RemoveAll("/run/v6-leases")
	})
	sandbox.Run(t, "ip", "netns", "exec", "advertiser", "sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0", "net.ipv6.conf.all.forwarding=1")
	sandbox.Run(t, "ip", "link", "add", "ra0", "type", "veth", "peer", "name", "r0", "netns", "advertiser")
	sandbox.Run(t, "ip", "link", "set", "ra0", "master", "storage0", "up")
	sandbox.Run(t, "ip", "-n", "advertiser", "link", "set", "r0", "up")
	return h
}

// requireV6 fails the test unless the namespace has these default routes of IPv6, and an
// address from the router or none.
func requireV6(t *testing.T, name string, routes int, address bool) {
	t.Helper()
	got := sandbox.Run(t, "ip", "-n", name, "-6", "route", "show", "default")
	if strings.Count(got, "dev") != routes {
		t.Errorf("default routes, want %d:\n%s", routes, got)
	}
	used := sandbox.Run(t, "ip", "-n", name, "-6", "route", "get", "2001:db8::1")
	if !strings.Contains(used, "via fd00:96::1 dev eth0") {
		t.Errorf("the route used is %s", used)
	}
	if got := sandbox.Run(t, "ip", "-n", name, "-6", "address"); strings.Contains(got, "fd00:99:") != address {
		t.Errorf("an address from the router: want %v:\n%s", address, got)
	}
}

// TestRouterAdvertisement: a router on an extra network changes neither addresses nor
// routes, unless the network accepts it. A default route that another program adds fails
// the check.
func TestRouterAdvertisement(t *testing.T) {
	h := newAdvertiser(t)
	h.attach("ra1", "--primary", "v6", "--networks", "storage")
	sandbox.AwaitAdvertised(t, advertiser, "r0", advertisedPrefix, "/run/netns/ra1")
	requireV6(t, "ra1", 1, false)
	h.must("check", "ra1")
	sandbox.Run(t, "ip", "-n", "ra1", "-6", "route", "add", "default", "via", "fe80::9", "dev", "net1", "metric", "2000")
	h.refuse(1, []string{"as net1 of allocation ra1", "default route via fe80::9 is not that of a network"}, "check", "ra1")
	h.must("detach", "ra1")

	h.attach("ra2", "--primary", "v6", "--networks", "slaac")
	sandbox.AwaitAdvertised(t, advertiser, "r0", advertisedPrefix, "/run/netns/ra2")
	requireV6(t, "ra2", 2, true)
	h.must("check", "ra2")
	h.must("detach", "ra2")
}

// TestLongRouterAdvertisementsDuringAttach: in a namespace of another runtime, interfaces
// accept router advertisements for a moment. What they gave is removed.
func TestLongRouterAdvertisementsDuringAttach(t *testing.T) {
	h := newAdvertiser(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for ticker := time.NewTicker(20 * time.Millisecond); ; <-ticker.C {
			select {
			case <-stop:
				return
			default:
				_ = sandbox.Advertise(advertiser, "r0", advertisedPrefix) // its address may not be ready
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	sandbox.Run(t, "ip", "netns", "add", "ra3")
	defer sandbox.Run(t, "ip", "netns", "del", "ra3")
	h.attach("ra3", "--netns", "/run/netns/ra3", "--networks", "v6@eth0,storage")
	sandbox.AwaitAdvertised(t, advertiser, "r0", advertisedPrefix, "/run/netns/ra3")
	requireV6(t, "ra3", 1, false)
	h.must("check", "ra3")
	h.must("detach", "ra3")
}

// TestIsolatedAdvertisement: with isolation an attachment sends from the address that a router has it give itself, and from no other one of
// its prefix.
func TestIsolatedAdvertisement(t *testing.T) {
	h := newHost(t)
	sandbox.WriteFile(t, h.conf+"/83-apart.conflist", `{"cniVersion": "1.0.0", "name": "apart", "allocnet": {"isolation": "network", "acceptRA": true, "awaitRA": true}, "plugins": [
		{"type": "bridge", "bridge": "apart0", "isGateway": true, "ipam": {"type": "host-local", "dataDir": "/run/apart-leases", "subnet": "10.98.0.0/24"}}]}`)
	t.Cleanup(func() { sandbox.Run(t, "ip", "link", "del", "apart0") })
	sandbox.Run(t, "ip", "link", "add", "apart0", "type", "bridge")
	sandbox.Run(t, "ip", "link", "set", "apart0", "up")
	sandbox.Run(t, "ip", "addr", "add", "fd00:98::1/64", "dev", "apart0", "nodad")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for ticker := time.NewTicker(200 * time.Millisecond); ; <-ticker.C {
			select {
			case <-stop:
				return
			default:
				_ = sandbox.Advertise("/proc/self/ns/net", "apart0", netip.MustParseAddr("fd00:98::")) // its address may not be ready
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	h.attach("apart1", "--primary", "apart")
	sandbox.Run(t, "ip", "netns", "exec", "apart1", "busybox", "ping6", "-c", "1", "-W", "5", "fd00:98::1")
	sandbox.Run(t, "ip", "-n", "apart1", "addr", "add", "fd00:98::66/64", "dev", "eth0", "nodad")
	if out, err := exec.Command("ip", "netns", "exec", "apart1", "busybox", "ping6", "-c", "1", "-W", "1", "-I", "fd00:98::66", "fd00:98::1").CombinedOutput(); err == nil {
		t.Errorf("another address is answered: %s", out)
	}
	h.must("detach", "apart1")
}
