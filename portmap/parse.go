// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package portmap

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// mostPorts of a range: each is rules of its own.
const mostPorts = 1000

const wantNumber = "want a number from 1 to 65535, or a range of at most 1000"

// Parse reads ports in the form of the command line:
//
//	[LABEL=][HOST-IP:]HOST-PORT[-LAST][:PORT[-LAST]][/PROTOCOL[+PROTOCOL...]]
//
// An IPv6 host IP is in brackets. The default label is the host port, and the default
// protocol is tcp. All ports of a range have the label.
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
	var ports []Port
	for i := range last - first + 1 {
		p := Port{Label: label, HostPort: first + i, HostIP: hostIP}
		if !labelled {
			p.Label = strconv.Itoa(p.HostPort)
		}
		if mapped {
			p.To = toFirst + i
		}
		ports = append(ports, p)
	}
	return withProtocols(ports, protocols)
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
	return int(low), int(high), errFirst == nil && errLast == nil && low <= high && high-low < mostPorts
}
