// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"fmt"
	"math/big"

	"github.com/allocnet/allocnet/cniconf"
)

// Pool counts the addresses of one family of a network that uses host-local.
type Pool struct {
	Network string `json:"network"`
	cniconf.Usage
}

// reportedFrom is the percentage of used addresses from which a pool is reported.
const reportedFrom = 90

func pools(r *Report, networks []network) {
	for _, n := range networks {
		usage, err := n.Usage()
		if err != nil {
			r.addError(n.Path, fmt.Sprintf("the leases of network %q cannot be read: %v", n.Name, err), "correct dataDir, or the mode of the directory")
		}
		for _, u := range usage {
			r.Pools = append(r.Pools, Pool{n.Name, u})
			if nearlyFull(u) {
				r.addError(n.Path, fmt.Sprintf("network %q has assigned %d of %s addresses (%s)", n.Name, u.Used, u.Total, u.Family),
					"allocnet gc, or configure a larger subnet")
			}
		}
	}
}

func nearlyFull(u cniconf.Usage) bool {
	used := new(big.Int).Mul(big.NewInt(int64(u.Used)), big.NewInt(100))
	return used.Cmp(new(big.Int).Mul(u.Total, big.NewInt(reportedFrom))) >= 0
}
