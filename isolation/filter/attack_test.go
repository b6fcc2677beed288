// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// capture keeps the names of frames that arrive at an interface. The name is in a frame after frameText.
type capture struct {
	mu    sync.Mutex
	names map[string]bool
}

const (
	frameText = "frame<"
	frameEnd  = '>'
)

// captureAt begins to capture in a namespace.
func captureAt(t *testing.T, n *netns.Namespace, link string) *capture {
	t.Helper()
	c := &capture{names: map[string]bool{}}
	var fd int
	err := n.Do(func() (err error) {
		fd, err = rawSocket(link, unix.ETH_P_ALL)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), link)
	t.Cleanup(func() { _ = file.Close() })
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := file.Read(buffer)
			if err != nil {
				return
			}
			_, name, ok := bytes.Cut(buffer[:n], []byte(frameText))
			if end := bytes.IndexByte(name, frameEnd); ok && end >= 0 {
				c.mu.Lock()
				c.names[string(name[:end])] = true
				c.mu.Unlock()
			}
		}
	}()
	return c
}

func (c *capture) has(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names[name]
}

// rawSocket opens a socket for the frames of an interface of this namespace.
func rawSocket(link string, protocol uint16) (int, error) {
	i, err := net.InterfaceByName(link)
	if err != nil {
		return -1, err
	}
	order := protocol<<8 | protocol>>8
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, int(order))
	if err != nil {
		return -1, err
	}
	return fd, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: order, Ifindex: i.Index})
}

// inject sends frames from an interface of a namespace, one after another.
func inject(t *testing.T, n *netns.Namespace, frames map[string][]byte) {
	t.Helper()
	err := n.Do(func() error {
		var one unix.CPUSet
		one.Set(0)
		_ = unix.SchedSetaffinity(0, &one) // the thread ends with this; the frames stay in their order
		fd, err := rawSocket("eth0", 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for _, name := range slices.Sorted(maps.Keys(frames)) {
			if _, err := unix.Write(fd, frames[name]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// attackers are two on each bridge: the second is the neighbour of the first. The last is on a ptp network.
func attackers() (all []*party) {
	for _, p := range parties() {
		if slices.Contains([]string{"s-web0", "s-db1", "n-web0", "n-cache2", "pn-web0"}, p.name) {
			all = append(all, p)
		}
	}
	return all
}

// scene is where an attack happens: who attacks, and whom.
type scene struct {
	me, neighbour filter.Member
	gateway       net.HardwareAddr
	all           map[string][]byte
}

var (
	everyone       = net.HardwareAddr{255, 255, 255, 255, 255, 255}
	allNodesMAC    = net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}
	allNodes       = netip.MustParseAddr("ff02::1")
	gateway4       = netip.MustParseAddr("10.2.0.1") // of the network; of the strict one it is any other address
	gatewayLocal   = netip.MustParseAddr("fe80::1")
	stranger       = net.HardwareAddr{2, 0, 0, 0, 9, 9}
	none4          = netip.IPv4Unspecified()
	none6          = netip.IPv6Unspecified()
	spanning       = net.HardwareAddr{1, 0x80, 0xc2, 0, 0, 0}
	discoveryOfAll = net.HardwareAddr{1, 0x80, 0xc2, 0, 0, 14}
)

// local is the address that the kernel makes of a MAC.
func local(mac net.HardwareAddr) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("fe80::%x:%xff:fe%02x:%x", uint16(mac[0]^2)<<8|uint16(mac[1]), mac[2], mac[3], uint16(mac[4])<<8|uint16(mac[5])))
}

// send adds a frame to the scene. make gets the text by which it is recognized.
func (s *scene) send(name string, to, from net.HardwareAddr, kind uint16, payload func(text string) []byte) {
	s.all[name] = frame(to, from, kind, payload(frameText+name+string(frameEnd))...)
}

func (s *scene) v4(name string, from netip.Addr, protocol byte, offset uint16, payload func(text string) []byte) {
	s.send(name, s.neighbour.MAC, s.me.MAC, unix.ETH_P_IP, func(text string) []byte {
		return packet4(from, s.neighbour.Addresses[0], protocol, offset, payload(text))
	})
}

func (s *scene) v6(name string, from netip.Addr, next byte, payload func(text string) []byte) {
	s.send(name, s.neighbour.MAC, s.me.MAC, unix.ETH_P_IPV6, func(text string) []byte {
		return packet6(from, s.neighbour.Addresses[1], next, payload(text))
	})
}

func udpText(text string) []byte { return datagram(5000, 5001, text) }

// legal are frames that an attachment may send.
func (s *scene) legal() {
	s.legalInside()
	me, own4, own6 := s.me.MAC, s.me.Addresses[0], s.me.Addresses[1]
	s.v4("IPv4", own4, unix.IPPROTO_UDP, 0, udpText)
	for name, port := range map[string]uint16{"from the port of DHCP": 67, "from a port that begins as a query for listeners does": 0x1101} {
		s.v4(name, own4, unix.IPPROTO_TCP, 0, func(text string) []byte { return datagram(port, 5001, text) })
	}
	s.v4("from a port of UDP that begins as a query for listeners does", own4, unix.IPPROTO_UDP, 0, func(text string) []byte { return datagram(0x1101, 5001, text) })
	s.v6("from the port of DHCPv6", own6, unix.IPPROTO_TCP, func(text string) []byte { return datagram(547, 5001, text) })
	s.v4("a first fragment", own4, unix.IPPROTO_UDP, 0x2000, udpText)
	s.v4("a further fragment", own4, unix.IPPROTO_UDP, 185, func(text string) []byte { return []byte(text) })
	s.v6("IPv6", own6, unix.IPPROTO_UDP, udpText)
	s.v6("IPv6 of the link", local(me), unix.IPPROTO_UDP, udpText)
	s.v6("UDP behind options", own6, destinationOptions, func(text string) []byte { return options(unix.IPPROTO_UDP, udpText(text)) })
	s.v6("a further fragment of IPv6", own6, fragment, func(text string) []byte { return fragmented(unix.IPPROTO_UDP, 185, false, []byte(text)) })
	s.v6("a further fragment of an echo", own6, fragment, func(text string) []byte { return fragmented(unix.IPPROTO_ICMPV6, 185, false, []byte(text)) })
	s.send("ARP", everyone, me, unix.ETH_P_ARP, func(text string) []byte { return arpOf(1, me, own4, everyone, gateway4, text) })
	s.send("ARP probe", everyone, me, unix.ETH_P_ARP, func(text string) []byte { return arpOf(1, me, none4, everyone, own4, text) })
	s.send("a group of IPv4", net.HardwareAddr{1, 0, 0x5e, 0, 0, 0xfb}, me, unix.ETH_P_IP, func(text string) []byte {
		return packet4(own4, netip.MustParseAddr("224.0.0.251"), unix.IPPROTO_UDP, 0, udpText(text))
	})
	s.send("a group of IPv6", allNodesMAC, me, unix.ETH_P_IPV6, func(text string) []byte {
		return packet6(local(me), allNodes, unix.IPPROTO_UDP, udpText(text))
	})
	s.send("NA", allNodesMAC, me, unix.ETH_P_IPV6, func(text string) []byte {
		return packet6(own6, allNodes, 58, icmp6(136, own6, allNodes, own6, me, text))
	})
	s.send("DAD", allNodesMAC, me, unix.ETH_P_IPV6, func(text string) []byte {
		return packet6(none6, allNodes, 58, icmp6(135, none6, allNodes, own6, me, text))
	})
}

// forged are frames that none may send.
func (s *scene) forged() {
	s.forgedLinks()
	s.forgedNeighbours()
	s.forgedServers()
	s.forgedSources()
	s.forgedFragments()
	s.forgedInside()
}

func (s *scene) forgedLinks() {
	me, own4 := s.me.MAC, s.me.Addresses[0]
	plain := func(text string) []byte {
		return packet4(own4, s.neighbour.Addresses[0], unix.IPPROTO_UDP, 0, udpText(text))
	}
	for name, mac := range map[string]net.HardwareAddr{
		"the neighbour's MAC": s.neighbour.MAC, "the gateway's MAC": s.gateway, "a stranger's MAC": stranger, "the MAC of all": everyone, "no MAC": make(net.HardwareAddr, 6), "a MAC of a group": allNodesMAC,
	} {
		s.send(name, s.neighbour.MAC, mac, unix.ETH_P_IP, plain)
		s.send(name+" to all", everyone, mac, unix.ETH_P_IP, plain)
	}
	for name, tag := range map[string]func([]byte) []byte{
		"tagged":             func(f []byte) []byte { return tagged(0x8100, 7, f) },
		"tagged with none":   func(f []byte) []byte { return tagged(0x8100, 0, f) },
		"tagged with 5 of 7": func(f []byte) []byte { return tagged(0x8100, 5<<13, f) }, // a priority
		"tagged otherwise":   func(f []byte) []byte { return tagged(0x9100, 7, f) },
		"tagged twice":       func(f []byte) []byte { return tagged(0x88a8, 7, tagged(0x8100, 8, f)) },
		"tagged twice alike": func(f []byte) []byte { return tagged(0x8100, 0, tagged(0x8100, 0, f)) },
	} {
		s.send(name, s.neighbour.MAC, me, unix.ETH_P_IP, plain)
		s.all[name] = tag(s.all[name])
	}
	for name, kind := range map[string]uint16{"MPLS": 0x8847, "PPPoE": 0x8864, "RARP": 0x8035, "EAPOL": 0x888e, "an unknown protocol": 0x9999, "IPv4 as IPv6": unix.ETH_P_IPV6} {
		s.send(name, s.neighbour.MAC, me, kind, plain)
		s.send(name+" to all", everyone, me, kind, plain)
	}
	llc := func(text string) []byte { return append([]byte{0x42, 0x42, 3}, text...) }
	s.send("LLC", everyone, me, 60, llc)
	s.send("SNAP", s.neighbour.MAC, me, 80, func(text string) []byte { return append([]byte{0xaa, 0xaa, 3, 0, 0, 0, 8, 0}, plain(text)...) })
	s.send("spanning tree", spanning, me, 60, llc)
	s.send("LLDP", discoveryOfAll, me, 0x88cc, llc)
}

func (s *scene) forgedNeighbours() {
	me, own4, own6 := s.me.MAC, s.me.Addresses[0], s.me.Addresses[1]
	near4, near6 := s.neighbour.Addresses[0], s.neighbour.Addresses[1]
	arps := map[string]func(text string) []byte{
		"ARP answer for the gateway":    func(text string) []byte { return arpOf(2, me, gateway4, s.neighbour.MAC, near4, text) },
		"ARP answer for the neighbour":  func(text string) []byte { return arpOf(2, me, near4, s.gateway, gateway4, text) },
		"ARP answer with another MAC":   func(text string) []byte { return arpOf(2, stranger, own4, s.gateway, gateway4, text) },
		"ARP request as the gateway":    func(text string) []byte { return arpOf(1, me, gateway4, everyone, near4, text) },
		"ARP of its own as the gateway": func(text string) []byte { return arpOf(1, me, gateway4, everyone, gateway4, text) },
		"ARP probe for the neighbour":   func(text string) []byte { return arpOf(1, me, none4, everyone, near4, text) },
		"ARP of longer addresses": func(text string) []byte {
			forged := arpOf(2, me, own4, everyone, near4, text)
			forged[4] = 8
			return forged
		},
	}
	for name, payload := range arps {
		s.send(name, everyone, me, unix.ETH_P_ARP, payload)
		s.send(name+" to one", s.neighbour.MAC, me, unix.ETH_P_ARP, payload)
	}
	discovery := func(name string, kind byte, from, target netip.Addr, wrap func([]byte) (byte, []byte)) {
		s.send(name, allNodesMAC, me, unix.ETH_P_IPV6, func(text string) []byte {
			next, payload := wrap(icmp6(kind, from, allNodes, target, me, text))
			return packet6(from, allNodes, next, payload)
		})
	}
	wraps := map[string]func([]byte) (byte, []byte){
		"":                    func(p []byte) (byte, []byte) { return 58, p },
		" behind hop-by-hop":  func(p []byte) (byte, []byte) { return hopByHop, options(58, p) },
		" behind a route":     func(p []byte) (byte, []byte) { return routing, options(58, p) },
		" behind options":     func(p []byte) (byte, []byte) { return destinationOptions, options(58, p) },
		" behind two headers": func(p []byte) (byte, []byte) { return hopByHop, options(destinationOptions, options(58, p)) },
		" behind authentication": func(p []byte) (byte, []byte) {
			return authentication, append([]byte{58, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, p...)
		},
		" in one fragment":     func(p []byte) (byte, []byte) { return fragment, fragmented(58, 0, false, p) },
		" in a first fragment": func(p []byte) (byte, []byte) { return fragment, fragmented(58, 0, true, p) },
		" in a fragment with options": func(p []byte) (byte, []byte) {
			return fragment, fragmented(destinationOptions, 0, true, options(58, p))
		},
		" in two fragment headers": func(p []byte) (byte, []byte) {
			return fragment, fragmented(fragment, 0, false, fragmented(58, 0, true, p))
		},
	}
	for how, wrap := range wraps {
		discovery("NA for the neighbour"+how, 136, own6, near6, wrap)
		discovery("NA for the gateway"+how, 136, local(me), gatewayLocal, wrap)
		discovery("NA as the neighbour"+how, 136, near6, near6, wrap)
		discovery("RA"+how, 134, local(me), own6, wrap)
		discovery("redirect"+how, 137, local(me), near6, wrap)
		discovery("DAD for the neighbour"+how, 135, none6, near6, wrap)
		discovery("solicitation as the neighbour"+how, 135, near6, own6, wrap)
		discovery("query for listeners"+how, 130, local(me), none6, wrap)
	}
}

func (s *scene) forgedServers() {
	own4, own6 := s.me.Addresses[0], s.me.Addresses[1]
	offer := func(text string) []byte { return datagram(67, 68, text) }
	offer6 := func(text string) []byte { return datagram(547, 546, text) }
	s.v4("DHCP", own4, unix.IPPROTO_UDP, 0, offer)
	s.v4("DHCP in a first fragment", own4, unix.IPPROTO_UDP, 0x2000, offer)
	s.send("DHCP to all", everyone, s.me.MAC, unix.ETH_P_IP, func(text string) []byte {
		return packet4(own4, allOfLink, unix.IPPROTO_UDP, 0, offer(text))
	})
	s.v4("query for listeners of IPv4", own4, unix.IPPROTO_IGMP, 0, func(text string) []byte { return append([]byte{0x11, 0, 0, 0, 0, 0, 0, 0}, text...) })
	s.v6("DHCPv6", own6, unix.IPPROTO_UDP, offer6)
	s.v6("DHCPv6 behind options", own6, destinationOptions, func(text string) []byte { return options(unix.IPPROTO_UDP, offer6(text)) })
	s.v6("DHCPv6 in a first fragment", own6, fragment, func(text string) []byte { return fragmented(unix.IPPROTO_UDP, 0, true, offer6(text)) })
	s.v6("a first fragment without its header", own6, fragment, func(text string) []byte {
		return fragmented(destinationOptions, 0, true, append([]byte{17, 200, 1, 4, 0, 0, 0, 0}, text...))
	})
}

func (s *scene) forgedSources() {
	for name, from := range map[string]netip.Addr{"the neighbour": s.neighbour.Addresses[0], "the gateway": gateway4, "none": none4, "loopback": netip.MustParseAddr("127.0.0.1"), "a group": netip.MustParseAddr("224.0.0.1"), "all": allOfLink, "a link": netip.MustParseAddr("169.254.7.7")} {
		s.v4("IPv4 of "+name, from, unix.IPPROTO_UDP, 0, udpText)
		s.v4("a further fragment of IPv4 of "+name, from, unix.IPPROTO_UDP, 185, func(text string) []byte { return []byte(text) })
	}
	for name, from := range map[string]netip.Addr{"the neighbour": s.neighbour.Addresses[1], "the neighbour's link": local(s.neighbour.MAC), "the gateway": gatewayLocal, "none": none6, "loopback": netip.IPv6Loopback(), "all": allNodes,
		"a link": netip.MustParseAddr("fe80::7"), "a mapped one": mapped(s.neighbour.Addresses[0]), "its own mapped one": mapped(s.me.Addresses[0])} {
		s.v6("IPv6 of "+name, from, unix.IPPROTO_UDP, udpText)
		s.v6("IPv6 behind hop-by-hop of "+name, from, hopByHop, func(text string) []byte { return options(unix.IPPROTO_UDP, udpText(text)) })
		s.v6("a further fragment of IPv6 of "+name, from, fragment, func(text string) []byte { return fragmented(unix.IPPROTO_UDP, 185, false, []byte(text)) })
	}
	broken := map[string]func([]byte){"a short header": func(p []byte) { p[0] = 0x44 }, "another version": func(p []byte) { p[0] = 0x65 }, "more than there is": func(p []byte) { p[2] = 9 }}
	for name, spoil := range broken {
		s.v4("IPv4 with "+name, s.me.Addresses[0], unix.IPPROTO_UDP, 0, udpText)
		spoil(s.all["IPv4 with "+name][14:])
	}
}

// requireNeighbours fails if a namespace knows an address with another MAC than wanted.
func requireNeighbours(t *testing.T, h *testHost, n *netns.Namespace, wanted map[netip.Addr]net.HardwareAddr) {
	t.Helper()
	found := 0
	h.in(t, n, func() error {
		for line := range strings.Lines(run(t, "ip", "neigh", "show", "nud", "all")) {
			fields := strings.Fields(line)
			if mac := wanted[netip.MustParseAddr(fields[0])]; mac != nil && slices.Contains(fields, "lladdr") {
				if found++; fields[4] != mac.String() {
					t.Errorf("%s, want %s", line, mac)
				}
			}
		}
		return nil
	})
	if found == 0 {
		t.Error("no neighbour is known")
	}
}

// TestRootAttacks: of what an attachment sends with a forged sender, or as a server or router, nothing reaches its neighbours or the host, and what
// these know of neighbours stays. What it may send arrives.
func TestRootAttacks(t *testing.T) {
	roottest.Require(t)
	all := attackers()
	state := filter.State{}
	for i, p := range all {
		state.Members = append(state.Members, p.member(i))
	}
	h, p := build(t, append(parties()[:2], all...), func() filter.State { return state })
	h.in(t, h.Namespace, func() error {
		for _, key := range []string{"iptables", "ip6tables"} { // rules of IP would join fragments
			if err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-"+key, []byte("0"), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	})
	for name, at := range map[string][2]int{"strict": {0, 1}, "network": {2, 3}} {
		t.Run(name, func(t *testing.T) {
			me, near := all[at[0]], all[at[1]]
			s := &scene{state.Members[at[0]], state.Members[at[1]], bridgeMAC(t, h, me.bridge), map[string][]byte{}}
			atNear, atHost := captureAt(t, h.inside[near.name], "eth0"), captureAt(t, h.Namespace, me.bridge)
			sandbox.Eventually(t, "the neighbour reaches the host", func() bool {
				near.send("udp", 0, netip.AddrPortFrom(parties()[0].addresses[0], probePort), name+" before")
				near.send("udp", 0, netip.AddrPortFrom(parties()[0].addresses[1], probePort), name+" before6")
				return p.has(name+" before") && p.has(name+" before6")
			})
			s.forged()
			forged := s.all
			inject(t, h.inside[me.name], forged)
			toHost := scene{s.me, s.neighbour, s.gateway, map[string][]byte{}}
			toHost.neighbour.MAC = s.gateway
			toHost.forged()
			inject(t, h.inside[me.name], toHost.all)
			s.all = map[string][]byte{}
			s.legal()
			ownToHost := frame(s.gateway, s.me.MAC, unix.ETH_P_IP, packet4(s.me.Addresses[0], gateway4, unix.IPPROTO_UDP, 0, udpText(frameText+"to the host>"))...)
			sandbox.Eventually(t, "what is legal arrives", func() bool {
				inject(t, h.inside[me.name], s.all)
				inject(t, h.inside[me.name], map[string][]byte{"": ownToHost})
				for frameName := range s.all {
					if me.level != isolation.Strict && !atNear.has(frameName) {
						return false
					}
				}
				return atHost.has("to the host")
			}, func() string { return fmt.Sprint(atNear.names) })
			for frameName := range forged {
				if atNear.has(frameName) || atHost.has(frameName) {
					t.Errorf("%s: at the neighbour %t, at the host %t", frameName, atNear.has(frameName), atHost.has(frameName))
				}
			}
			for frameName := range s.all {
				if me.level == isolation.Strict && atNear.has(frameName) {
					t.Errorf("%s has reached a neighbour that is apart", frameName)
				}
			}
			own4 := near.addresses[0].As4()
			own4[3] = 1
			here, there := map[netip.Addr]net.HardwareAddr{}, map[netip.Addr]net.HardwareAddr{netip.AddrFrom4(own4): s.gateway, gateway4: s.gateway, gatewayLocal: s.gateway, local(s.gateway): s.gateway}
			for _, m := range []filter.Member{s.me, s.neighbour} {
				for _, a := range append(m.Addresses, local(m.MAC)) {
					here[a], there[a] = m.MAC, m.MAC
					if me.level == isolation.Strict {
						there[a] = s.gateway
					}
				}
			}
			requireNeighbours(t, h, h.Namespace, here)
			requireNeighbours(t, h, h.inside[near.name], there)
			t.Logf("%d forged frames", len(forged))
		})
	}
}

// TestRootAttacksByRoute: the host routes no packet with a forged sender from an end of ptp, and takes none for its loopback, which published
// ports open to the links of attachments.
func TestRootAttacksByRoute(t *testing.T) {
	roottest.Require(t)
	all := attackers()
	state := filter.State{}
	for i, p := range all {
		state.Members = append(state.Members, p.member(i))
	}
	ends := append(parties()[:2], all...)
	h, p := build(t, ends, func() filter.State { return state })
	outside, routed, bridged := captureAt(t, ends[1].Namespace, "eth0"), state.Members[4], state.Members[2]
	h.in(t, h.Namespace, func() error {
		return errors.Join(os.WriteFile("/proc/sys/net/ipv4/conf/"+routed.End+"/route_localnet", []byte("1"), 0), os.WriteFile("/proc/sys/net/ipv4/conf/br-n/route_localnet", []byte("1"), 0))
	})
	s := &scene{routed, bridged, bridgeMAC(t, h, routed.End), map[string][]byte{}}
	out4, out6 := ends[1].addresses[0], ends[1].addresses[1]
	v4 := func(name string, from netip.Addr, payload func(string) []byte) {
		s.send(name, s.gateway, routed.MAC, unix.ETH_P_IP, func(text string) []byte { return packet4(from, out4, unix.IPPROTO_UDP, 0, payload(text)) })
	}
	v6 := func(name string, from netip.Addr, next byte, payload func(string) []byte) {
		s.send(name, s.gateway, routed.MAC, unix.ETH_P_IPV6, func(text string) []byte { return packet6(from, out6, next, payload(text)) })
	}
	v4("1 the neighbour's IPv4", bridged.Addresses[0], udpText)
	v4("1 a stranger's IPv4", netip.MustParseAddr("192.0.2.9"), udpText)
	v4("1 DHCP", routed.Addresses[0], func(text string) []byte { return datagram(67, 68, text) })
	v6("1 the neighbour's IPv6", bridged.Addresses[1], unix.IPPROTO_UDP, udpText)
	v6("1 the neighbour's IPv6 behind options", bridged.Addresses[1], destinationOptions, func(text string) []byte { return options(unix.IPPROTO_UDP, udpText(text)) })
	v6("1 DHCPv6", routed.Addresses[1], unix.IPPROTO_UDP, func(text string) []byte { return datagram(547, 546, text) })
	v4("2 its IPv4", routed.Addresses[0], udpText)
	v6("2 its IPv6", routed.Addresses[1], unix.IPPROTO_UDP, udpText)
	toHost := func(name string, m filter.Member, to string) {
		gateway := s.gateway
		if m.Bridge != "" {
			gateway = bridgeMAC(t, h, m.Bridge)
		}
		packet := packet4(m.Addresses[0], netip.MustParseAddr(to), unix.IPPROTO_UDP, 0, datagram(5000, probePort, name))
		inject(t, h.inside[m.ID], map[string][]byte{name: frame(gateway, m.MAC, unix.ETH_P_IP, packet...)})
	}
	sandbox.Eventually(t, "what is legal arrives", func() bool {
		inject(t, h.inside[routed.ID], s.all)
		for _, m := range []filter.Member{routed, bridged} {
			toHost("loopback "+m.ID, m, "127.0.0.1")
			toHost("host "+m.ID, m, "10.9.0.1")
		}
		return outside.has("2 its IPv4") && outside.has("2 its IPv6") && p.has("host "+routed.ID) && p.has("host "+bridged.ID)
	})
	for name := range s.all {
		if strings.HasPrefix(name, "1") && outside.has(name) {
			t.Errorf("%s has left the host", name)
		}
	}
	if p.has("loopback "+routed.ID) || p.has("loopback "+bridged.ID) {
		t.Error("a packet has reached the host's loopback")
	}
}

func bridgeMAC(t *testing.T, h *testHost, name string) (mac net.HardwareAddr) {
	h.in(t, h.Namespace, func() error {
		i, err := net.InterfaceByName(name)
		if err == nil {
			mac = i.HardwareAddr
		}
		return err
	})
	return mac
}
