// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package portmap

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/allocnet/allocnet/allocation"
)

// mostPorts of a range that is rules for each port.
const mostPorts = 1000

const wantNumber = "want a number from 1 to 65535, or a range of them"

// Parse reads ports in the form of the command line:
//
//	[LABEL=][HOST-IP:]HOST-PORT[-LAST][:PORT[-LAST]][/PROTOCOL[+PROTOCOL...]]
//
// An IPv6 host IP is in brackets. The default label is the host port, and the default
// protocol is tcp. A range that is mapped to the same ports is one port with LastHostPort, whose default label is the range. Of others
// all ports have the label.
func Parse(s string) ([]Port, error) {
	fail := func(field, value, reason string) ([]Port, error) {
		return nil, invalidPort(s, field, value, reason+", as in 8080:80/tcp")
	}
	label, rest, labelled := strings.Cut(s, "=")
	if !labelled {
		label, rest = "", s
	} else if label == "" {
		return fail("label", label, "want a name before '='")
	}
	rest, protocols, err := cutProtocols(rest)
	if err != nil {
		return fail("protocol", protocols[0], err.Error())
	}
	rest, hostIP := cutHostIP(rest)
	host, to, mapped := strings.Cut(rest, ":")
	first, last, ok := parseRange(host)
	if !ok {
		return fail("host port", host, wantNumber)
	}
	toFirst, toLast := 0, last-first
	if mapped {
		if toFirst, toLast, ok = parseRange(to); !ok || toFirst == 0 {
			return fail("port", to, wantNumber)
		}
	}
	if toLast-toFirst != last-first {
		return fail("port", to, fmt.Sprintf("want a range of %d, as many as host ports", last-first+1))
	}
	if mapped && toFirst != first && last-first >= mostPorts {
		return fail("port", to, fmt.Sprintf("want at most %d ports that are mapped to others, each by a rule, or the same ports", mostPorts))
	}
	port := Port{Label: label, HostPort: first, HostIP: hostIP}
	if mapped {
		port.To = toFirst
	}
	return withProtocols(portsOf(port, last, labelled), protocols)
}

// portsOf returns ports of the host from the first, which is given, to the last one: one for all, or one for each if they are mapped to
// others. Without a label they have that of the ports of the host.
func portsOf(first Port, last int, labelled bool) []Port {
	host := allocation.PortRange{First: first.HostPort, Last: last}
	isOne := host.IsOne()
	if !isOne && (first.To == 0 || first.To == first.HostPort) {
		first.To, first.LastHostPort, isOne = 0, last, true
	}
	if isOne {
		if !labelled {
			first.Label = host.String()
		}
		return []Port{first}
	}
	var ports []Port
	for i := range last - first.HostPort + 1 {
		p := Port{Label: first.Label, HostPort: first.HostPort + i, To: first.To + i, HostIP: first.HostIP}
		if !labelled {
			p.Label = strconv.Itoa(p.HostPort)
		}
		ports = append(ports, p)
	}
	return ports
}

func withProtocols(ports []Port, protocols []string) ([]Port, error) {
	var all []Port
	for _, p := range ports {
		for _, p.Protocol = range protocols {
			if err := validate(p); err != nil {
				return nil, err
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// cutProtocols splits "PORT/PROTOCOL+PROTOCOL". With an error, the first protocol is
// the invalid one.
func cutProtocols(s string) (rest string, protocols []string, err error) {
	rest, list, named := strings.Cut(s, "/")
	if !named {
		return rest, []string{"tcp"}, nil
	}
	protocols = strings.Split(list, "+")
	for i, p := range protocols {
		if !slices.Contains([]string{"tcp", "udp", "sctp"}, p) || slices.Contains(protocols[:i], p) {
			return "", []string{p}, fmt.Errorf("want tcp, udp or sctp after '/', or several as in tcp+udp")
		}
	}
	return rest, protocols, nil
}

// cutHostIP splits "IP:PORT..." or "[IP]:PORT..." into the port and the host IP.
func cutHostIP(s string) (rest, ip string) {
	if inner, after, ok := strings.Cut(strings.TrimPrefix(s, "["), "]:"); ok && strings.HasPrefix(s, "[") {
		return after, inner
	}
	first, after, ok := strings.Cut(s, ":")
	if ok && strings.Contains(first, ".") {
		return after, first
	}
	return s, ""
}

// parseRange reads "N" or "FIRST-LAST".
func parseRange(s string) (first, last int, ok bool) {
	from, to, isRange := strings.Cut(s, "-")
	if !isRange {
		to = from
	}
	low, errFirst := strconv.ParseUint(from, 10, 16)
	high, errLast := strconv.ParseUint(to, 10, 16)
	return int(low), int(high), errFirst == nil && errLast == nil && low <= high
}
