// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package local

import (
	"fmt"
	"strings"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// FullError is the blocks of this host without a free address.
type FullError struct {
	Pool string
	// Families have no free address.
	Families []ipam.Family
	// Blocks is the number of blocks of these families, and Cooling that of the addresses that
	// are free but not yet to be given out. The first of them is from Next.
	Blocks, Cooling int
	Next            time.Time
}

func (e *FullError) Error() string {
	var families []string
	for _, f := range e.Families {
		families = append(families, fmt.Sprintf("IPv%d", f))
	}
	text := fmt.Sprintf("%v: pool %s, %s: %d blocks of this host have none", ipam.ErrExhausted, e.Pool, strings.Join(families, " and "), e.Blocks)
	if e.Cooling > 0 {
		text += fmt.Sprintf(", and %d more from %s on", e.Cooling, e.Next.Format(time.RFC3339))
	}
	return text
}

// Unwrap returns ipam.ErrExhausted.
func (e *FullError) Unwrap() error { return ipam.ErrExhausted }
