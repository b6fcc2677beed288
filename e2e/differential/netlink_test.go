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

	"github.com/allocnet/allocnet/internal/netns"
)

// attribute is how an attribute of netlink is shown. What has no description is shown as it is.
type attribute struct {
	name string
	// nested are the attributes that it consists of.
	nested map[uint16]attribute
	// array is whether it is an array of numbers.
	array bool
	// show returns its text. It gets the dump that has it, and that of the other namespace.
	show func(value []byte, own, other *dump) string
}

// volatile attributes change without a step: statistics, timers, and what the kernel notices
// later, such as a carrier.
var volatile = attribute{}

// decode returns a line for each attribute.
func decode(prefix string, data []byte, known map[uint16]attribute, own, other *dump) []string {
	attrs, err := nl.ParseRouteAttr(data)
	if err != nil {
		return []string{fmt.Sprintf("%s %x", prefix, data)}
	}
	var lines []string
	for _, attr := range attrs {
		number := attr.Attr.Type &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		a, described := known[number]
		switch {
		case !described:
			lines = append(lines, fmt.Sprintf("%s %d=%x", prefix, number, attr.Value))
		case a.array:
			lines = append(lines, eachValue(prefix+" "+a.name, attr.Value)...)
		case a.nested != nil:
			lines = append(lines, decode(prefix+" "+a.name, attr.Value, a.nested, own, other)...)
		case a.show != nil:
			lines = append(lines, fmt.Sprintf("%s %s=%s", prefix, a.name, a.show(attr.Value, own, other)))
		}
	}
	return lines
}

// request dumps objects of one kind of this namespace.
func request(kind int, header nl.NetlinkRequestData, attrs ...nl.NetlinkRequestData) ([][]byte, error) {
	return netns.Whole(func() ([][]byte, error) {
		r := nl.NewNetlinkRequest(kind, unix.NLM_F_DUMP)
		r.AddData(header)
		for _, attr := range attrs {
			r.AddData(attr)
		}
		return r.Execute(unix.NETLINK_ROUTE, 0)
	})
}

func integer(value []byte, _, _ *dump) string {
	switch len(value) {
	case 1:
		return fmt.Sprint(value[0])
	case 2:
		return fmt.Sprint(binary.NativeEndian.Uint16(value))
	case 4:
		return fmt.Sprint(binary.NativeEndian.Uint32(value))
	}
	return fmt.Sprintf("%x", value)
}

func words(value []byte, _, _ *dump) string { return strings.TrimRight(string(value), "\x00") }

func hardware(value []byte, _, _ *dump) string { return net.HardwareAddr(value).String() }

func address(value []byte, _, _ *dump) string { return net.IP(value).String() }

func linkName(value []byte, own, _ *dump) string {
	return own.name(int(binary.NativeEndian.Uint32(value)))
}

// eachValue returns a line for each number of an array that is not 0.
func eachValue(prefix string, value []byte) []string {
	var lines []string
	for i := 0; i+4 <= len(value); i += 4 {
		if v := int32(binary.NativeEndian.Uint32(value[i:])); v != 0 {
			lines = append(lines, fmt.Sprintf("%s %d=%d", prefix, i/4, v))
		}
	}
	return lines
}
