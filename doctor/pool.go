// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"fmt"
	"math/big"

	"github.com/allocnet/allocnet/cleanup"
)

// Pool counts the addresses of a network that uses host-local.
type Pool struct {
	Network string `json:"network"`
	Used    int    `json:"used"`
	// Total is the number of addresses that host-local can assign. That of an
	// IPv6 subnet can exceed 64 bits.
	Total *big.Int `json:"total"`
}

// reportedFrom is the percentage of used addresses from which a pool is reported.
const reportedFrom = 90

func pools(r *Report, networks []network, found *cleanup.Found) {
	used := map[string]int{}
	for _, o := range found.Objects {
		if o.Kind == cleanup.Lease {
			used[o.Owner.Network]++
		}
	}
	for _, n := range networks {
		if len(n.ranges) == 0 {
			continue
		}
		p := Pool{Network: n.Name, Used: used[n.Name], Total: new(big.Int)}
		for _, a := range n.ranges {
			p.Total.Add(p.Total, a.Size())
		}
		r.Pools = append(r.Pools, p)
		if p.nearlyFull() {
			r.addError(n.Path, fmt.Sprintf("network %q has assigned %d of %s addresses", n.Name, p.Used, p.Total),
				"allocnet gc, or configure a larger subnet")
		}
	}
}

func (p Pool) nearlyFull() bool {
	used := new(big.Int).Mul(big.NewInt(int64(p.Used)), big.NewInt(100))
	return used.Cmp(new(big.Int).Mul(p.Total, big.NewInt(reportedFrom))) >= 0
}
