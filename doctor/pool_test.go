// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/cleanup"
)

func TestPools(t *testing.T) {
	networks := load(t, map[string]string{
		"a.conflist": `{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "bridge", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.0.0.0/29", "rangeStart": "10.0.0.2", "rangeEnd": "10.0.0.5"}], [{"subnet": "fd00::/64"}]]}}]}`,
		"b.conflist": `{"cniVersion": "1.0.0", "name": "b", "plugins": [{"type": "bridge", "bridge": "b0", "ipam": {"type": "host-local", "subnet": "10.1.0.0/29", "rangeStart": "10.1.0.2", "rangeEnd": "10.1.0.5"}}]}`,
		"c.conflist": `{"cniVersion": "1.0.0", "name": "c", "plugins": [{"type": "bridge", "ipam": {"type": "dhcp"}}]}`,
	})
	for used, want := range map[int]int{3: 0, 4: 1} {
		found := &cleanup.Found{}
		for range used {
			found.Objects = append(found.Objects, cleanup.Object{Kind: cleanup.Lease, Owner: cleanup.Owner{Network: "b"}}, cleanup.Object{Kind: cleanup.Ports, Owner: cleanup.Owner{Network: "b"}})
		}
		r := &Report{}
		pools(r, networks, found)
		if len(r.Findings) != want || want == 1 && r.Findings[0].Problem != `network "b" has assigned 4 of 4 addresses` {
			t.Errorf("%d used: findings %+v, want %d", used, r.Findings, want)
		}
		var counts []string
		for _, p := range r.Pools {
			counts = append(counts, fmt.Sprintf("%s %d", p.Network, p.Used))
		}
		if diff := cmp.Diff([]string{"a 0", fmt.Sprintf("b %d", used)}, counts); diff != "" {
			t.Error(diff)
		}
		if r.Pools[0].Total.Cmp(new(big.Int).Lsh(big.NewInt(1), 63)) <= 0 {
			t.Errorf("an IPv6 subnet has %s addresses, want more than an int64 has", r.Pools[0].Total)
		}
	}
}

func TestNearlyFull(t *testing.T) {
	for _, test := range []struct {
		used  int
		total int64
		want  bool
	}{{0, 1, false}, {1, 1, true}, {1, 2, false}, {3, 4, false}, {8, 9, false}, {9, 10, true}, {89, 100, false}, {90, 100, true}} {
		if got := (Pool{Used: test.used, Total: big.NewInt(test.total)}).nearlyFull(); got != test.want {
			t.Errorf("%d of %d: %t, want %t", test.used, test.total, got, test.want)
		}
	}
}
