// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package allocation

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// PortRange is ports of the host from First to Last. In JSON one port is a number, and several are a text as "10000-10199".
type PortRange struct{ First, Last int }

// ParsePortRange reads "N" or "FIRST-LAST".
func ParsePortRange(text string) (PortRange, error) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, errFirst := strconv.ParseUint(from, 10, 16)
	last, errLast := strconv.ParseUint(to, 10, 16)
	if errFirst != nil || errLast != nil || first < 1 || last < first {
		return PortRange{}, fmt.Errorf("hostPort %q: want a port from 1 to 65535, or a range as in \"10000-10199\"", text)
	}
	return PortRange{int(first), int(last)}, nil
}

// UnmarshalJSON reads a number or a text. As elsewhere in JSON, null changes nothing.
func (r *PortRange) UnmarshalJSON(data []byte) (err error) {
	if string(data) == "null" {
		return nil
	}
	var text string
	if json.Unmarshal(data, &text) == nil {
		*r, err = ParsePortRange(text)
		return err
	}
	var port int
	if err := json.Unmarshal(data, &port); err != nil {
		return fmt.Errorf("hostPort %s: want a port from 1 to 65535, or a range as in \"10000-10199\"", data)
	}
	*r = PortRange{port, port}
	return nil
}

// MarshalJSON writes one port as a number, as readers without ranges want it.
func (r PortRange) MarshalJSON() ([]byte, error) {
	if r.IsOne() {
		return json.Marshal(r.First)
	}
	return json.Marshal(r.String())
}

// IsOne tells whether the range is a single port.
func (r PortRange) IsOne() bool { return r.First == r.Last }

func (r PortRange) String() string {
	if r.IsOne() {
		return strconv.Itoa(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// Ranges returns mappings for people: those of consecutive ports are one. Plugins have one for each port, and so has a job with
// a label for each.
func Ranges(mappings []PortMapping) (ranges []PortMapping) {
	next := map[successor]int{} // of each range
	for _, m := range mappings {
		key := successor{m.HostIP, m.Protocol, int(m.HostPort), int(m.ContainerPort)}
		at, ok := next[key]
		if ok {
			ranges[at].LastHostPort = max(m.HostPort, m.LastHostPort)
		} else {
			at = len(ranges)
			ranges = append(ranges, m)
		}
		delete(next, key)
		next[successor{m.HostIP, m.Protocol, ranges[at].HostPorts().Last + 1, ranges[at].ContainerPorts().Last + 1}] = at
	}
	return ranges
}

// successor is where a mapping begins that continues a range. A job may have thousands of ports.
type successor struct {
	hostIP, protocol string
	host, container  int
}
