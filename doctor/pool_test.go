// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/cniconf"
)

// TestPools: each family is counted by itself, so that a full IPv4 range is reported
// beside one of IPv6.
func TestPools(t *testing.T) {
	for used, want := range map[int][]string{3: nil, 4: {
		`network "dual" has assigned 4 of 4 addresses (ipv4)`, `network "single" has assigned 4 of 4 addresses (ipv4)`,
	}} {
		dir := t.TempDir()
		local := fmt.Sprintf(`"type": "host-local", "dataDir": %q`, dir)
		networks := load(t, map[string]string{
			"a.conflist": `{"cniVersion": "1.0.0", "name": "dual", "plugins": [{"type": "bridge", "ipam": {` + local + `, "ranges": [[{"subnet": "10.0.0.0/29", "rangeStart": "10.0.0.2", "rangeEnd": "10.0.0.5"}], [{"subnet": "fd00::/64"}]]}}]}`,
			"b.conflist": `{"cniVersion": "1.0.0", "name": "single", "plugins": [{"type": "bridge", "bridge": "b0", "ipam": {` + local + `, "subnet": "10.1.0.0/29", "rangeStart": "10.1.0.2", "rangeEnd": "10.1.0.5"}}]}`,
			"c.conflist": `{"cniVersion": "1.0.0", "name": "c", "plugins": [{"type": "bridge", "ipam": {"type": "dhcp"}}]}`,
		})
		for i := range used {
			for _, lease := range []string{"dual/10.0.0.%d", "dual/fd00::%d", "single/10.1.0.%d"} {
				path := filepath.Join(dir, fmt.Sprintf(lease, i+2))
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		r := &Report{}
		pools(r, networks)
		var problems, counts []string
		for _, f := range r.Findings {
			problems = append(problems, f.Problem)
		}
		for _, p := range r.Pools {
			counts = append(counts, fmt.Sprintf("%s %s %d", p.Network, p.Family, p.Used))
		}
		if diff := cmp.Diff(want, problems); diff != "" {
			t.Errorf("%d used:\n%s", used, diff)
		}
		if diff := cmp.Diff([]string{fmt.Sprintf("dual ipv4 %d", used), fmt.Sprintf("dual ipv6 %d", used), fmt.Sprintf("single ipv4 %d", used)}, counts); diff != "" {
			t.Error(diff)
		}
	}
}

// TestUnreadableLeases are not a pool without leases.
func TestUnreadableLeases(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/a", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := &Report{}
	pools(r, load(t, map[string]string{
		"a.conflist": fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "bridge", "ipam": {"type": "host-local", "dataDir": %q, "subnet": "10.0.0.0/29"}}]}`, dir),
	}))
	if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Problem, dir+"/a: not a directory") {
		t.Errorf("findings %+v", r.Findings)
	}
}

func TestNearlyFull(t *testing.T) {
	for _, test := range []struct {
		used  int
		total int64
		want  bool
	}{{0, 1, false}, {1, 1, true}, {1, 2, false}, {3, 4, false}, {8, 9, false}, {9, 10, true}, {89, 100, false}, {90, 100, true}} {
		if got := nearlyFull(cniconf.Usage{Used: test.used, Total: big.NewInt(test.total)}); got != test.want {
			t.Errorf("%d of %d: %t, want %t", test.used, test.total, got, test.want)
		}
	}
}
