// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package links

import (
	"errors"
	"net"
	"strings"
	"testing"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
)

func bridge(name string) *netlink.Bridge {
	return &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
}

// requireError requires an error with a text; empty: none.
func requireError(t *testing.T, err error, want string) {
	t.Helper()
	if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestRootExisting: those links that have one of the names themselves, and not as an alternative one. A name that cannot be is an error.
func TestRootExisting(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		first := bridge("br0")
		if err := errors.Join(netlink.LinkAdd(first), netlink.LinkAdd(bridge("br1")), netlink.LinkAddAltName(first, "alt0")); err != nil {
			return err
		}
		found, err := Existing([]string{"missing", "br0", "alt0", "br1"})
		if err != nil || len(found) != 2 || found[0].Attrs().Name != "br0" || found[1].Attrs().Name != "br1" {
			t.Errorf("%v, %v", found, err)
		}
		if link, err := Find("alt0"); link != nil || err != nil {
			t.Errorf("%v, %v", link, err)
		}
		_, err = Existing([]string{strings.Repeat("x", 200)})
		requireError(t, err, "numerical result out of range")
		return nil
	})
}

// TestRootSetUp: a link is up then, or the error says what failed, as for a VXLAN whose port a program has.
func TestRootSetUp(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		taken, err := net.ListenPacket("udp", ":4789")
		if err != nil {
			return err
		}
		defer taken.Close()
		if err := errors.Join(netlink.LinkAdd(bridge("br0")), netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "vx0"}, VxlanId: 7, Port: 4789})); err != nil {
			return err
		}
		requireError(t, SetUp("missing"), "failed to retrieve link")
		requireError(t, SetUp("vx0"), `failed to set "vx0" up`)
		requireError(t, SetUp("br0"), "")
		link, err := netlink.LinkByName("br0")
		if err == nil && link.Attrs().Flags&net.FlagUp == 0 {
			t.Error("it is not up")
		}
		return err
	})
}

// TestRootSetMAC: a link has the MAC then; a text that is none changes nothing.
func TestRootSetMAC(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		link := bridge("br0")
		if err := netlink.LinkAdd(link); err != nil {
			return err
		}
		const mac = "02:00:00:00:00:07"
		requireError(t, SetMAC(link, mac), "")
		requireError(t, SetMAC(link, "02:00"), "invalid args 02:00 for MAC addr")
		requireError(t, SetMAC(link, ""), "invalid args  for MAC addr")
		present, err := netlink.LinkByName("br0")
		if err != nil {
			return err
		}
		for recorded, want := range map[string]bool{"": true, mac: true, strings.ToUpper(mac): true, "02:00:00:00:00:08": false} {
			if HasMAC(present, &current.Interface{Name: "net1", Mac: recorded}) != want {
				t.Errorf("MAC %q: want %t", recorded, want)
			}
		}
		return nil
	})
}

// TestRootManyRoutes: among very many routes none is looked for.
func TestRootManyRoutes(t *testing.T) {
	roottest.Require(t)
	most := maxRoutes
	t.Cleanup(func() { maxRoutes = most })
	maxRoutes = 2
	netnstest.Run(t, func() error {
		link := bridge("br0")
		if err := errors.Join(netlink.LinkAdd(link), netlink.LinkSetUp(link)); err != nil {
			return err
		}
		for i, want := range []string{"", "", "table 100 has more than 2 routes"} {
			to := HostNetwork(net.IPv4(10, 0, 0, byte(i)))
			if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Index, Dst: &to, Table: 100, Scope: netlink.SCOPE_LINK}); err != nil {
				return err
			}
			found, err := RoutesOf(link, 100)
			requireError(t, err, want)
			if err == nil && len(found) != i+1 {
				t.Errorf("%d routes, want %d", len(found), i+1)
			}
		}
		return nil
	})
}

// TestRootMakeVeth: the pair has its name and MTU; a name that is taken, and what the kernel refuses, are errors.
func TestRootMakeVeth(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		here, err := ns.GetNS("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		defer here.Close()
		link, err := MakeVeth(NewVeth("eth0", "", 1400, here))
		if err != nil || link.Attrs().Name != "eth0" || link.Attrs().MTU != 1400 {
			t.Errorf("%v, %v", link, err)
		}
		_, err = MakeVeth(NewVeth("eth0", "", 1400, here))
		requireError(t, err, `container veth name ("eth0") peer provided ("veth`)
		_, err = MakeVeth(NewVeth("eth1", "", 1<<30, here))
		requireError(t, err, "failed to make veth pair: ")
		return nil
	})
}
