// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Ports are ports of a protocol, or a protocol without ports.
type Ports struct {
	// Protocol is tcp, udp, sctp or icmp, which is of both families.
	Protocol string
	// First and Last are the range. 0: all.
	First, Last uint16
}

// icmp has no ports.
const icmp = "icmp"

// dnsPorts are those of name servers.
var dnsPorts = []Ports{{"udp", 53, 53}, {"tcp", 53, 53}}

// ParsePorts reads "PORT/PROTOCOL", "FIRST-LAST/PROTOCOL" or "PROTOCOL".
func ParsePorts(text string) (Ports, error) {
	wrong := fmt.Errorf("ports %q: want a port and a protocol, as in 5432/tcp or 8000-8010/udp, or a protocol: tcp, udp, sctp, icmp", text)
	numbers, protocol, hasPorts := strings.Cut(text, "/")
	if !hasPorts {
		protocol = text
	}
	if !slices.Contains([]string{"tcp", "udp", "sctp", icmp}, protocol) || hasPorts && protocol == icmp {
		return Ports{}, wrong
	}
	p := Ports{Protocol: protocol}
	if !hasPorts {
		return p, nil
	}
	first, last, isRange := strings.Cut(numbers, "-")
	if !isRange {
		last = first
	}
	var errFirst, errLast error
	p.First, errFirst = port(first)
	p.Last, errLast = port(last)
	if errFirst != nil || errLast != nil || p.Last < p.First {
		return Ports{}, wrong
	}
	return p, nil
}

// port reads a number from 1 to 65535, which has no sign.
func port(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if n == 0 {
		err = strconv.ErrRange
	}
	return uint16(n), err
}

// String is what a file has.
func (p Ports) String() string {
	switch p.First {
	case 0:
		return p.Protocol
	case p.Last:
		return fmt.Sprintf("%d/%s", p.First, p.Protocol)
	}
	return fmt.Sprintf("%d-%d/%s", p.First, p.Last, p.Protocol)
}

// has tells whether a port of a protocol is among the ports.
func (p Ports) has(protocol string, port uint16) bool {
	return p.Protocol == protocol && (p.First == 0 || p.First <= port && port <= p.Last)
}

// anyHas tells whether a port of a protocol is among those of a rule, which are all if it has none.
func anyHas(ports []Ports, protocol string, port uint16) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p Ports) bool { return p.has(protocol, port) })
}
