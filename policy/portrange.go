// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"fmt"
	"strconv"
	"strings"
)

// PortRange is ports of the host from First to Last, as "N" or "N-M".
type PortRange struct{ First, Last int }

// UnmarshalText reads a range.
func (r *PortRange) UnmarshalText(text []byte) error {
	first, last, isRange := strings.Cut(string(text), "-")
	if !isRange {
		last = first
	}
	from, _ := strconv.ParseUint(first, 10, 31) // what is no number becomes 0, and one that is too long the largest
	to, _ := strconv.ParseUint(last, 10, 31)
	r.First, r.Last = int(from), int(to)
	if r.First < 1 || r.Last > 65535 || r.Last < r.First {
		return fmt.Errorf("hostPorts %q: want a port or a range from 1 to 65535, as in 20000-20999", text)
	}
	return nil
}

func (r PortRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

func (r PortRange) contains(port int) bool { return r.First <= port && port <= r.Last }
