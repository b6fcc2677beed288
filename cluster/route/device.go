// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/errdefs"
)

var errForeignDevice = errdefs.New(errdefs.Conflict, "interface is not allocnet's")

const (
	aliasPrefix = "allocnet pool "
	namePrefix  = "vx-"
	longestName = 15 // IFNAMSIZ, without the zero byte
)

// deviceName is the name of a pool's device: with the pool's name if it fits.
func deviceName(pool string) string {
	if len(namePrefix+pool) <= longestName {
		return namePrefix + pool
	}
	sum := sha256.Sum256([]byte(pool))
	return namePrefix + hex.EncodeToString(sum[:])[:longestName-len(namePrefix)]
}

// deviceMAC is derived from the address of the device's host. So there is one for each address, whatever
// other hosts wrote to the store, and the device has the same one when it is made again: by a host
// that has lost its records, and by a machine that replaces another one, too.
func deviceMAC(of netip.Addr, pool string) string {
	sum := sha256.Sum256([]byte("vxlan " + of.String() + " " + pool))
	mac := net.HardwareAddr(sum[:6])
	mac[0] = mac[0]&^1 | 2 // unicast, locally administered
	return mac.String()
}

// linkLocalOf is the address that IPv6 derives from a MAC (RFC 4291, appendix A). It is not valid
// for what is no MAC.
func linkLocalOf(mac string) netip.Addr {
	m, err := net.ParseMAC(mac)
	if err != nil || len(m) != 6 {
		return netip.Addr{}
	}
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5]})
}

// overhead is what VXLAN adds to a packet: Ethernet, VXLAN, UDP and IP.
func overhead(underlay netip.Addr) int {
	if underlay.Is4() {
		return 14 + 8 + 8 + 20
	}
	return 14 + 8 + 8 + 40
}

// mtuOf is the MTU of the interface that packets from an address leave by. An address of lo is one that
// the host announces; its packets take the default route.
func (s *snapshot) mtuOf(local netip.Addr) (mtu int, found bool) {
	switch underlay := s.linkOf(local); {
	case underlay == nil:
		return 0, false
	case underlay.name != loopback:
		return underlay.mtu, true
	}
	for _, e := range s.routes {
		if e.prefix.Bits() == 0 && e.prefix.Addr().Is4() == local.Is4() {
			if l := s.link(e.device); l != nil {
				return l.mtu, true
			}
		}
	}
	return ethernetMTU, true
}

const (
	loopback    = "lo"
	ethernetMTU = 1500
)

// needsIPv6 is whether routes have next hops of IPv6 behind the device: to blocks of IPv6, and between hosts
// with IPv6 addresses.
func (p Pool) needsIPv6(local netip.Addr) bool {
	return local.Is6() || slices.ContainsFunc(p.Subnets, func(s netip.Prefix) bool { return s.Addr().Is6() })
}

func (p Pool) device(local netip.Addr, underlayMTU int) device {
	mac := deviceMAC(local, p.Name)
	return device{
		name: deviceName(p.Name), alias: aliasPrefix + p.Name, mac: mac,
		mtu: underlayMTU - overhead(local), id: p.VXLAN.ID, port: p.VXLAN.Port,
		local: local, up: true, tuned: true, hasIPv4: true, ipv6: p.needsIPv6(local), linkLocal: linkLocalOf(mac),
	}
}

// isOurs is whether an interface is the pool's device. Until it has its alias, its MAC shows that.
func (l *link) isOurs(pool string) bool {
	return l.kind == "vxlan" && (l.alias == aliasPrefix+pool || l.alias == "" && l.mac == deviceMAC(l.local, pool))
}

func (l *link) hasOurAlias() bool {
	return l.kind == "vxlan" && strings.HasPrefix(l.alias, aliasPrefix)
}

func planDevice(s *snapshot, pool string, want device) ([]change, error) {
	var changes []change
	for i := range s.links {
		if l := &s.links[i]; l.name != want.name && l.kind == "vxlan" && l.alias == want.alias {
			changes = append(changes, change{remove, device{name: l.name}}) // renamed
		}
	}
	have := s.link(want.name)
	switch {
	case have == nil:
		return append(changes, change{add, want}, change{replace, want}), nil
	case !have.isOurs(pool):
		return nil, fmt.Errorf("%w: %s is an interface of the kind %q with the alias %q: remove it, or rename the pool %s", errForeignDevice, want.name, have.kind, have.alias, pool)
	case have.id != want.id || have.port != want.port || have.local != want.local || have.flooding: // the kernel does not change these
		return append(changes, change{remove, device{name: want.name}}, change{add, want}, change{replace, want}), nil
	}
	if have.device != have.possible(want) {
		changes = append(changes, change{replace, want})
	}
	return changes, nil
}

// possible is the wanted device as this one can be. Where IPv6 is off it stays so unless it is needed: a host
// without IPv6 may have no rules for it.
func (l *link) possible(want device) device {
	want.ipv6 = !l.noIPv6 && (want.ipv6 || l.ipv6)
	if !want.ipv6 {
		want.linkLocal = netip.Addr{}
	}
	return want
}

type setting struct{ path, value string }

// ipv6Off is the path of the sysctl that takes IPv6 from an interface.
func ipv6Off(device string) string { return "net/ipv6/conf/" + device + "/disable_ipv6" }

// settingsOf returns those of a device. A packet may arrive on it whose answer takes another
// interface: that of another host itself (RFC 3704, 2.4). Who can send a packet into it is not
// trusted, so it learns no routes: neither by router advertisements (RFC 4861) nor by redirects.
func settingsOf(device string, hasIPv6 bool) []setting {
	ipv4, ipv6 := "net/ipv4/conf/"+device+"/", "net/ipv6/conf/"+device+"/"
	all := []setting{{ipv4 + "rp_filter", "2"}, {ipv4 + "accept_redirects", "0"}}
	if hasIPv6 {
		all = append(all, setting{ipv6 + "accept_ra", "0"}, setting{ipv6 + "autoconf", "0"}, setting{ipv6 + "accept_redirects", "0"})
	}
	return all
}

func (s *socket) isTuned(device string, hasIPv6 bool) bool {
	return !slices.ContainsFunc(settingsOf(device, hasIPv6), func(x setting) bool {
		value, err := s.parameters.Get(x.path)
		return err != nil || value != x.value
	})
}

func (s *socket) tune(device string, hasIPv6 bool) error {
	for _, x := range settingsOf(device, hasIPv6) {
		if err := s.parameters.Set(x.path, x.value); err != nil {
			return err
		}
	}
	return nil
}
