// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// dump has the links of one namespace.
type dump struct {
	prefix string
	links  []*link
	vlans  [][]byte
	names  map[int]string
}

// link is a link as the kernel describes it.
type link struct {
	index      int
	name, kind string
	// below is the index of the other end of a pair, or of the link below this one, which may
	// be in the other namespace.
	below     int
	elsewhere bool
	// master is the index of the bridge whose port this is.
	master int
	mac    net.HardwareAddr
	flags  uint32
	attrs  []byte
}

func (d *dump) name(index int) string {
	if name := d.names[index]; name != "" {
		return name
	}
	return fmt.Sprintf("link %d", index)
}

// dumpLinks returns the links of this namespace.
func dumpLinks(prefix string) (*dump, error) {
	messages, err := request(unix.RTM_GETLINK, nl.NewIfInfomsg(unix.AF_UNSPEC))
	if err != nil {
		return nil, err
	}
	d := &dump{prefix: prefix, names: map[int]string{}}
	for _, message := range messages {
		l, err := parseLink(message)
		if err != nil {
			return nil, err
		}
		d.links = append(d.links, l)
		d.names[l.index] = l.name
	}
	d.vlans, err = request(unix.RTM_GETLINK, nl.NewIfInfomsg(unix.AF_BRIDGE), nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(nl.RTEXT_FILTER_BRVLAN)))
	return d, err
}

func parseLink(message []byte) (*link, error) {
	header := nl.DeserializeIfInfomsg(message)
	l := &link{index: int(header.Index), flags: header.Flags, attrs: message[unix.SizeofIfInfomsg:]}
	attrs, err := nl.ParseRouteAttr(l.attrs)
	if err != nil {
		return nil, err
	}
	for _, attr := range attrs {
		switch attr.Attr.Type {
		case unix.IFLA_IFNAME:
			l.name = strings.TrimRight(string(attr.Value), "\x00")
		case unix.IFLA_ADDRESS:
			l.mac = attr.Value
		case unix.IFLA_LINK:
			l.below = int(binary.NativeEndian.Uint32(attr.Value))
		case unix.IFLA_MASTER:
			l.master = int(binary.NativeEndian.Uint32(attr.Value))
		case unix.IFLA_LINK_NETNSID:
			l.elsewhere = true
		case unix.IFLA_LINKINFO:
			info, err := nl.ParseRouteAttr(attr.Value)
			if err != nil {
				return nil, err
			}
			for _, i := range info {
				if i.Attr.Type == nl.IFLA_INFO_KIND {
					l.kind = strings.TrimRight(string(i.Value), "\x00")
				}
			}
		}
	}
	return l, nil
}

// describe returns one line for each attribute of each link.
func (d *dump) describe(other *dump) []string {
	var lines []string
	for _, l := range d.links {
		prefix := d.prefix + "link " + l.name
		lines = append(lines, fmt.Sprintf("%s peer=%s flags=%#x", prefix, l.peer(d, other), l.flags&^(unix.IFF_RUNNING|unix.IFF_LOWER_UP)))
		lines = append(lines, decode(prefix, l.attrs, linkAttributes, d, other)...)
	}
	for _, message := range d.vlans {
		prefix := d.prefix + "bridge port " + d.name(int(nl.DeserializeIfInfomsg(message).Index))
		lines = append(lines, decode(prefix, message[unix.SizeofIfInfomsg:], portAttributes, d, other)...)
	}
	return lines
}

// peer returns the name of the other end of a pair, or of the link below this one.
func (l *link) peer(own, other *dump) string {
	d := own
	if l.elsewhere {
		d = other
	}
	if d == nil || l.below == 0 {
		return ""
	}
	return d.prefix + d.name(l.below)
}

// linkAttributes are those of RTM_NEWLINK (linux/if_link.h).
var linkAttributes = map[uint16]attribute{
	unix.IFLA_ADDRESS:   {name: "address", show: hardware},
	unix.IFLA_BROADCAST: {name: "broadcast", show: hardware},
	unix.IFLA_IFNAME:    volatile, // in each line
	unix.IFLA_MTU:       {name: "mtu", show: integer},
	unix.IFLA_LINK:      volatile, // see peer
	unix.IFLA_QDISC:     {name: "qdisc", show: words},
	unix.IFLA_STATS:     volatile,
	unix.IFLA_MASTER:    {name: "master", show: linkName},
	unix.IFLA_TXQLEN:    {name: "txqlen", show: integer},
	unix.IFLA_MAP:       volatile,
	unix.IFLA_OPERSTATE: volatile,
	unix.IFLA_LINKINFO: {name: "linkinfo", nested: map[uint16]attribute{
		nl.IFLA_INFO_KIND:       {name: "kind", show: words},
		nl.IFLA_INFO_DATA:       {name: "data", nested: kindAttributes},
		nl.IFLA_INFO_SLAVE_KIND: {name: "port of", show: words},
		nl.IFLA_INFO_SLAVE_DATA: {name: "port", nested: bridgePortAttributes},
	}},
	unix.IFLA_STATS64: volatile,
	unix.IFLA_AF_SPEC: {name: "sysctl", nested: map[uint16]attribute{
		unix.AF_INET: {name: "ipv4", nested: map[uint16]attribute{
			1: {name: "conf", array: true},
		}},
		unix.AF_INET6: {name: "ipv6", nested: map[uint16]attribute{
			1: volatile,
			2: {name: "conf", array: true},
			3: volatile,
			5: volatile,
			6: volatile,
			8: {name: "addr_gen_mode", show: integer},
		}},
	}},
	unix.IFLA_GROUP:              {name: "group", show: integer},
	unix.IFLA_PROMISCUITY:        {name: "promiscuity", show: integer},
	unix.IFLA_NUM_TX_QUEUES:      volatile, // one of each with allocnet (docs/differences.md)
	unix.IFLA_NUM_RX_QUEUES:      volatile,
	unix.IFLA_CARRIER:            volatile,
	unix.IFLA_CARRIER_CHANGES:    volatile,
	unix.IFLA_CARRIER_UP_COUNT:   volatile,
	unix.IFLA_CARRIER_DOWN_COUNT: volatile,
	unix.IFLA_LINK_NETNSID:       volatile, // a number that the kernel gives, as an index
	unix.IFLA_NEW_IFINDEX:        volatile,
}

// kindAttributes are those of bridges (linux/if_link.h, IFLA_BR). Other kinds have lower
// numbers and no volatile ones.
var kindAttributes = map[uint16]attribute{
	nl.IFLA_BR_ROOT_ID:                  volatile, // with the MAC
	nl.IFLA_BR_BRIDGE_ID:                volatile,
	nl.IFLA_BR_ROOT_PORT:                volatile,
	nl.IFLA_BR_TOPOLOGY_CHANGE:          volatile,
	nl.IFLA_BR_TOPOLOGY_CHANGE_DETECTED: volatile,
	nl.IFLA_BR_HELLO_TIMER:              volatile,
	nl.IFLA_BR_TCN_TIMER:                volatile,
	nl.IFLA_BR_TOPOLOGY_CHANGE_TIMER:    volatile,
	nl.IFLA_BR_GC_TIMER:                 volatile,
	47:                                  volatile, // IFLA_BR_MCAST_QUERIER_STATE
	48:                                  volatile, // IFLA_BR_FDB_N_LEARNED
}

// bridgePortAttributes are those of a port of a bridge (linux/if_link.h, IFLA_BRPORT).
var bridgePortAttributes = map[uint16]attribute{
	nl.IFLA_BRPORT_STATE: volatile, // follows the carrier
	nl.IFLA_BRPORT_MODE:  {name: "hairpin", show: integer},
	33:                   {name: "isolated", show: integer},
	13:                   volatile, // IFLA_BRPORT_ROOT_ID
	14:                   volatile, // IFLA_BRPORT_BRIDGE_ID
	19:                   volatile, // IFLA_BRPORT_TOPOLOGY_CHANGE_ACK
	20:                   volatile, // IFLA_BRPORT_CONFIG_PENDING
	21:                   volatile, // IFLA_BRPORT_MESSAGE_AGE_TIMER
	22:                   volatile, // IFLA_BRPORT_FORWARD_DELAY_TIMER
	38:                   volatile, // IFLA_BRPORT_MCAST_EHT_HOSTS_CNT
	41:                   volatile, // IFLA_BRPORT_MCAST_N_GROUPS
	23:                   volatile, // IFLA_BRPORT_HOLD_TIMER
}

// portAttributes are those of RTM_NEWLINK of bridges that the other dump lacks.
var portAttributes = func() map[uint16]attribute {
	known := map[uint16]attribute{}
	for number := range uint16(100) {
		known[number] = volatile
	}
	known[unix.IFLA_AF_SPEC] = attribute{name: "vlan", nested: map[uint16]attribute{}}
	return known
}()
