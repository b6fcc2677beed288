// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package lease

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/mdlayher/packet"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
)

// handle is a namespace of which nothing else is used.
type handle struct {
	kernel.Namespace
	path string
}

func (h handle) Handle() string { return h.path }

// inNew calls f in a new namespace.
func inNew(t *testing.T, f func(n handle) error) {
	t.Helper()
	netnstest.Run(t, func() error {
		here, err := ns.GetNS("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		defer here.Close()
		return f(handle{path: fmt.Sprintf("/proc/self/fd/%d", here.Fd())})
	})
}

// TestRootEnter: the interface has what its lease gives after each change, however often it is made, and nothing of the former one. What
// the network has for itself stays.
func TestRootEnter(t *testing.T) {
	roottest.Require(t)
	at := func(address, gateway string) dhcp.Lease {
		return dhcp.Lease{Address: netip.MustParsePrefix(address), Gateway: netip.MustParseAddr(gateway), HadDefault: true}
	}
	first := at("10.0.0.5/24", "10.0.0.1")
	routed := at("10.0.0.5/24", "10.0.0.2")
	routed.Routes = []dhcp.Route{{To: netip.MustParsePrefix("192.168.0.0/16"), Via: netip.MustParseAddr("10.0.0.3")}, {To: netip.MustParsePrefix("192.0.2.0/24")}}
	lost := routed
	lost.Lost = true
	others := at("10.0.1.6/24", "10.0.1.1")
	others.HadDefault = false
	steps := []struct {
		lease dhcp.Lease
		want  string
	}{
		{first, "10.0.0.5/24; 0.0.0.0/0 via 10.0.0.1; 10.0.0.0/24 via <nil>; "},
		{routed, "10.0.0.5/24; 0.0.0.0/0 via 10.0.0.2; 10.0.0.0/24 via <nil>; 192.0.2.0/24 via <nil>; 192.168.0.0/16 via 10.0.0.3; "},
		{lost, ""},
		{first, "10.0.0.5/24; 0.0.0.0/0 via 10.0.0.1; 10.0.0.0/24 via <nil>; "},
		{at("10.0.0.77/24", "10.0.0.1"), "10.0.0.77/24; 0.0.0.0/0 via 10.0.0.1; 10.0.0.0/24 via <nil>; "},
		{lost, ""},
		{others, "10.0.1.6/24; 10.0.1.0/24 via <nil>; "},
	}
	inNew(t, func(n handle) error {
		if err := enter(n, "net0", first); err == nil {
			t.Error("an interface that is missing is no error")
		}
		link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "net0"}}
		if err := netlink.LinkAdd(link); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}
		former := dhcp.Lease{Lost: true, Address: first.Address}
		for i, step := range steps {
			step.lease.Former = &former
			for range 2 { // after a kill it is repeated
				if err := enter(n, "net0", step.lease); err != nil {
					t.Errorf("step %d: %v", i, err)
				}
				if got := seen(t, n, link); got != step.want {
					t.Errorf("step %d: %q, want %q", i, got, step.want)
				}
			}
			former = step.lease
			former.Former = nil
		}
		return nil
	})
}

// TestRootEnterIPv6: a lease of IPv6 has its address in place of the former one, and of the same by router advertisements. Others by these, those
// of others and the link-local one stay.
func TestRootEnterIPv6(t *testing.T) {
	roottest.Require(t)
	inNew(t, func(n handle) error {
		link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "net0"}}
		other, err := netlink.ParseAddr("2001:db8::99/64")
		if err != nil {
			return err
		}
		same, err := netlink.ParseAddr("2001:db8::77/64")
		if err != nil {
			return err
		}
		if err := errors.Join(netlink.LinkAdd(link), netlink.LinkSetUp(link), netlink.AddrAdd(link, other), netlink.AddrAdd(link, same)); err != nil {
			return err
		}
		former := leaseIPv6("2001:db8::5", "2001:db8::53")
		former.Lost = true
		for _, step := range []struct{ address, want string }{
			{"2001:db8::5", "2001:db8::5/128 2001:db8::77/64 2001:db8::99/64"}, {"2001:db8::77", "2001:db8::77/128 2001:db8::99/64"}, {"", "2001:db8::99/64"},
		} {
			l := leaseIPv6(cmp.Or(step.address, "2001:db8::77"), "2001:db8::53")
			l.Lost, l.Former = step.address == "", &former
			for range 2 { // after a kill it is repeated
				if err := enter(n, "net0", l); err != nil {
					t.Error(err)
				}
				if got := globalIPv6(t, link); got != step.want {
					t.Errorf("got %q, want %q", got, step.want)
				}
			}
			l.Former = nil
			former = l
		}
		return nil
	})
}

// TestRootEnterAnnounces: hosts of the link are told of an address that the interface has anew, and not of one that it had.
func TestRootEnterAnnounces(t *testing.T) {
	roottest.Require(t)
	inNew(t, func(n handle) error {
		link, peer := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "net0"}, PeerName: "peer"}, &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "peer"}}
		if err := errors.Join(netlink.LinkAdd(link), netlink.LinkSetUp(link), netlink.LinkSetUp(peer)); err != nil {
			return err
		}
		wire, err := net.InterfaceByName("peer")
		if err != nil {
			return err
		}
		conn, err := packet.Listen(wire, packet.Datagram, unix.ETH_P_ARP, nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		at := func(address string) dhcp.Lease { return dhcp.Lease{Address: netip.MustParsePrefix(address)} }
		former := at("10.0.0.5/24")
		former.Lost = true
		for _, address := range []string{"10.0.0.5/24", "10.0.0.5/24", "10.0.0.6/24"} {
			l := at(address)
			l.Former = &former
			if err := enter(n, "net0", l); err != nil {
				return err
			}
			former = at(address)
		}
		for _, want := range []string{"10.0.0.5", "10.0.0.6"} {
			frame := make([]byte, 64)
			if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				return err
			}
			if _, _, err := conn.ReadFrom(frame); err != nil || net.IP(frame[14:18]).String() != want {
				t.Errorf("%s is announced, want %s; %v", net.IP(frame[14:18]), want, err)
			}
		}
		return nil
	})
}

// globalIPv6 are the addresses of a link, sorted.
func globalIPv6(t *testing.T, link netlink.Link) string {
	t.Helper()
	addresses, err := netlink.AddrList(link, netlink.FAMILY_V6)
	if err != nil {
		t.Error(err)
	}
	var all []string
	for _, a := range addresses {
		if !a.IP.IsLinkLocalUnicast() {
			all = append(all, a.IPNet.String())
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// seen are the addresses and the routes of a link.
func seen(t *testing.T, n handle, link netlink.Link) (text string) {
	t.Helper()
	err := within.Path(n.path, func(ns.NetNS) error {
		addresses, err := links.Addresses(link, netlink.FAMILY_V4)
		if err != nil {
			return err
		}
		for _, a := range addresses {
			text += a.IPNet.String() + "; "
		}
		routes, err := links.RoutesOf(link, unix.RT_TABLE_MAIN)
		for _, r := range routes {
			if r.Family == netlink.FAMILY_V4 {
				text += fmt.Sprintf("%s via %s; ", links.Destination(r.Dst, r.Family), r.Gw)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return text
}
