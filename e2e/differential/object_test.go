// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// object is a kind of object that a namespace has beside links.
type object struct {
	name    string
	request int
	header  nl.NetlinkRequestData
	size    int
	// describe returns the text of the header; empty for what is not compared.
	describe func(header []byte, attrs map[uint16][]byte, own *dump) string
	known    map[uint16]attribute
}

var objects = []object{
	{"address", unix.RTM_GETADDR, nl.NewIfAddrmsg(unix.AF_UNSPEC), unix.SizeofIfAddrmsg, describeAddress, addressAttributes},
	{"route", unix.RTM_GETROUTE, &nl.RtMsg{}, unix.SizeofRtMsg, describeRoute, routeAttributes},
	{"rule", unix.RTM_GETRULE, &nl.RtMsg{}, unix.SizeofRtMsg, describeRule, nil},
	{"neighbour", unix.RTM_GETNEIGH, nl.NewIfInfomsg(unix.AF_UNSPEC), unix.SizeofNdMsg, describeNeighbour, neighbourAttributes},
	{"queue", unix.RTM_GETQDISC, &nl.TcMsg{}, nl.SizeofTcMsg, describeQueue, queueAttributes},
}

// filters are those of packets that come in over a link.
func filters(index int) object {
	header := &nl.TcMsg{Ifindex: int32(index), Parent: netlink.HANDLE_INGRESS &^ 0xffff}
	return object{"filter", unix.RTM_GETTFILTER, header, nl.SizeofTcMsg, describeQueue, filterAttributes}
}

// dumpObjects returns a line for each object of this namespace, whose links are given.
func dumpObjects(own *dump) ([]string, error) {
	var lines []string
	all := slices.Clone(objects)
	for _, l := range own.links {
		if l.kind == "veth" {
			all = append(all, filters(l.index))
		}
	}
	for _, o := range all {
		more, err := o.dump(own)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", o.name, err)
		}
		lines = append(lines, more...)
	}
	return lines, nil
}

// dump returns a line for each object of this kind.
func (o object) dump(own *dump) ([]string, error) {
	messages, err := request(o.request, o.header)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, message := range messages {
		attrs := map[uint16][]byte{}
		list, err := nl.ParseRouteAttr(message[o.size:])
		if err != nil {
			return nil, err
		}
		for _, attr := range list {
			attrs[attr.Attr.Type&^unix.NLA_F_NESTED] = attr.Value
		}
		if header := o.describe(message[:o.size], attrs, own); header != "" {
			lines = append(lines, fmt.Sprintf("%s%s %s%s", own.prefix, o.name, header, strings.Join(decode("", message[o.size:], o.known, own, nil), "")))
		}
	}
	return lines, nil
}

// kernelLinkLocal is IFAPROT_KERNEL_LL of linux/if_addr.h.
const kernelLinkLocal = 3

func describeAddress(header []byte, attrs map[uint16][]byte, own *dump) string {
	if proto := attrs[11]; len(proto) == 1 && proto[0] == kernelLinkLocal { // IFA_PROTO
		return "" // comes a while after the link
	}
	link := own.name(int(binary.NativeEndian.Uint32(header[4:])))
	flags := uint32(header[2])
	if all := attrs[8]; len(all) == 4 { // IFA_FLAGS
		flags = binary.NativeEndian.Uint32(all)
	}
	return fmt.Sprintf("of %s/%d scope %d flags %#x", link, header[1], header[3], addressFlags(link, flags))
}

// addressFlags returns the flags of an address. Without duplicate address detection it is tentative
// only until the link has its carrier. lo never has it, and -1 in its setting.
func addressFlags(link string, flags uint32) uint32 {
	if dad := readSetting("net/ipv6/conf/" + link + "/accept_dad"); len(dad) > 0 && strings.ContainsRune("0-", rune(dad[0])) {
		flags &^= unix.IFA_F_TENTATIVE
	}
	return flags
}

var addressAttributes = map[uint16]attribute{
	unix.IFA_ADDRESS:   {name: "address", show: address},
	unix.IFA_LOCAL:     {name: "local", show: address},
	unix.IFA_LABEL:     {name: "label", show: words},
	unix.IFA_BROADCAST: {name: "broadcast", show: address},
	unix.IFA_CACHEINFO: {name: "lifetime", show: func(value []byte, _, _ *dump) string { return fmt.Sprintf("%x", value[:8]) }},
	8:                  volatile,                       // IFA_FLAGS, in the header
	11:                 {name: "proto", show: integer}, // IFA_PROTO
}

func describeRoute(header []byte, attrs map[uint16][]byte, _ *dump) string {
	destination, proto, kind := net.IP(attrs[unix.RTA_DST]), header[5], header[7]
	if header[0] == unix.AF_INET6 && proto == unix.RTPROT_KERNEL {
		if destination.IsLinkLocalUnicast() || destination.IsMulticast() || kind == unix.RTN_ANYCAST || kind == unix.RTN_LOCAL {
			return "" // follows from addresses and forwarding, a while later
		}
	}
	flags := binary.NativeEndian.Uint32(header[8:]) &^ (unix.RTNH_F_LINKDOWN | unix.RTNH_F_DEAD)
	return fmt.Sprintf("of family %d to %s/%d tos %d proto %d scope %d type %d flags %#x", header[0], destination, header[1], header[3], proto, header[6], kind, flags)
}

var routeAttributes = map[uint16]attribute{
	unix.RTA_DST:       volatile, // in the header
	unix.RTA_OIF:       {name: "dev", show: linkName},
	unix.RTA_IIF:       {name: "iif", show: linkName},
	unix.RTA_GATEWAY:   {name: "via", show: address},
	unix.RTA_PREFSRC:   {name: "src", show: address},
	unix.RTA_TABLE:     {name: "table", show: integer},
	unix.RTA_PRIORITY:  {name: "metric", show: integer},
	unix.RTA_CACHEINFO: volatile,
	unix.RTA_MULTIPATH: {name: "nexthops", show: nexthops},
}

var nexthopAttributes = map[uint16]attribute{unix.RTA_GATEWAY: {name: "via", show: address}}

// nexthops shows the next hops of a route: struct rtnexthop has length, flags, weight, index.
func nexthops(value []byte, own, _ *dump) string {
	var b strings.Builder
	for len(value) >= unix.SizeofRtNexthop {
		length := int(binary.NativeEndian.Uint16(value))
		index := int(binary.NativeEndian.Uint32(value[4:]))
		if length < unix.SizeofRtNexthop || length > len(value) {
			break
		}
		fmt.Fprintf(&b, "[%s weight %d%s]", own.name(index), value[3], strings.Join(decode("", value[unix.SizeofRtNexthop:length], nexthopAttributes, own, nil), ""))
		value = value[min(len(value), (length+3)&^3):]
	}
	return b.String()
}

func describeRule(header []byte, _ map[uint16][]byte, _ *dump) string {
	return fmt.Sprintf("%x", header)
}

// permanent neighbours are those that a program has made.
func describeNeighbour(header []byte, _ map[uint16][]byte, own *dump) string {
	if binary.NativeEndian.Uint16(header[8:])&unix.NUD_PERMANENT == 0 {
		return ""
	}
	return fmt.Sprintf("of %s family %d flags %x", own.name(int(binary.NativeEndian.Uint32(header[4:]))), header[0], header[10:])
}

var neighbourAttributes = map[uint16]attribute{
	unix.NDA_DST:       {name: "address", show: address},
	unix.NDA_LLADDR:    {name: "mac", show: hardware},
	unix.NDA_CACHEINFO: volatile,
	unix.NDA_PROBES:    volatile,
}

func describeQueue(header []byte, _ map[uint16][]byte, own *dump) string {
	return fmt.Sprintf("of %s handle %x", own.name(int(binary.NativeEndian.Uint32(header[4:]))), header[8:16])
}

var queueAttributes = map[uint16]attribute{
	nl.TCA_KIND:   {name: "kind", show: words},
	nl.TCA_STATS:  volatile,
	nl.TCA_STATS2: volatile,
	nl.TCA_XSTATS: volatile,
}

var filterAttributes = map[uint16]attribute{
	nl.TCA_KIND: {name: "kind", show: words},
	nl.TCA_OPTIONS: {name: "options", nested: map[uint16]attribute{
		nl.TCA_U32_PCNT: volatile,
		nl.TCA_U32_ACT:  {name: "action", nested: map[uint16]attribute{1: {name: "first", nested: actionAttributes}, 2: {name: "second", nested: actionAttributes}}},
	}},
}

var actionAttributes = map[uint16]attribute{
	nl.TCA_ACT_KIND:     {name: "kind", show: words},
	nl.TCA_ACT_OPTIONS:  {name: "options", nested: map[uint16]attribute{nl.TCA_MIRRED_TM: volatile, nl.TCA_MIRRED_PARMS: {name: "redirect", show: redirect}}},
	nl.TCA_ACT_INDEX:    volatile,
	nl.TCA_ACT_STATS:    volatile,
	nl.TCA_ACT_HW_STATS: volatile,
}

// redirect shows struct tc_mirred: numbers of the kernel, then what is done, and the link.
func redirect(value []byte, own, _ *dump) string {
	if len(value) < 28 {
		return fmt.Sprintf("%x", value)
	}
	return fmt.Sprintf("%x to %s", value[20:24], own.name(int(binary.NativeEndian.Uint32(value[24:]))))
}
