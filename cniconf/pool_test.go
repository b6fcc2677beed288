// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// addressRange parses a range; empty texts leave the field unset.
func addressRange(subnet, start, end, gateway string) AddressRange {
	var r AddressRange
	if subnet != "" {
		r.Subnet = netip.MustParsePrefix(subnet)
	}
	for address, text := range map[*netip.Addr]string{&r.RangeStart: start, &r.RangeEnd: end, &r.Gateway: gateway} {
		if text != "" {
			*address = netip.MustParseAddr(text)
		}
	}
	return r
}

func TestRangeSize(t *testing.T) {
	for name, test := range map[string]struct {
		a      AddressRange
		leased []string
		want   string
	}{
		"subnet without ends and gateway":   {addressRange("10.0.0.0/24", "", "", ""), nil, "253"},
		"smallest":                          {addressRange("10.0.0.0/30", "", "", ""), nil, "1"},
		"range":                             {addressRange("10.0.0.0/24", "10.0.0.10", "10.0.0.19", ""), nil, "10"},
		"range with the gateway in it":      {addressRange("10.0.0.0/24", "10.0.0.10", "10.0.0.19", "10.0.0.12"), nil, "9"},
		"end before start":                  {addressRange("10.0.0.0/24", "10.0.0.19", "10.0.0.10", ""), nil, "0"},
		"IPv6":                              {addressRange("fd00::/64", "", "", ""), nil, "18446744073709551614"},
		"no subnet":                         {AddressRange{}, nil, "0"},
		"leases":                            {addressRange("10.0.0.0/24", "10.0.0.10", "10.0.0.19", ""), []string{"10.0.0.10", "10.0.0.19"}, "8"},
		"leases of other ranges":            {addressRange("10.0.0.0/24", "10.0.0.10", "10.0.0.19", ""), []string{"10.0.0.9", "10.0.0.20", "fd00::10"}, "10"},
		"the gateway's lease counts once":   {addressRange("10.0.0.0/24", "10.0.0.10", "10.0.0.19", "10.0.0.12"), []string{"10.0.0.12"}, "9"},
		"all addresses of the range leased": {addressRange("10.0.0.0/30", "", "", ""), []string{"10.0.0.2"}, "0"},
	} {
		var leased []netip.Addr
		for _, text := range test.leased {
			leased = append(leased, netip.MustParseAddr(text))
		}
		if got := test.a.Free(leased).String(); got != test.want {
			t.Errorf("%s: %s free, want %s", name, got, test.want)
		}
		if leased == nil && test.a.Size().String() != test.want {
			t.Errorf("%s: size %s, want %s", name, test.a.Size(), test.want)
		}
	}
}

func TestPools(t *testing.T) {
	inline, first, second := addressRange("10.0.0.0/24", "", "", ""), addressRange("10.1.0.0/24", "", "", ""), addressRange("fd00::/64", "", "", "")
	for name, test := range map[string]struct {
		ipam string
		want []Pool
	}{
		"subnet":            {`{"type": "host-local", "subnet": "10.0.0.0/24"}`, []Pool{{Sets: [][]AddressRange{{inline}}, Leases: "/var/lib/cni/networks/a"}}},
		"ranges":            {`{"type": "host-local", "dataDir": "/run/x", "ranges": [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00::/64"}]]}`, []Pool{{Sets: [][]AddressRange{{first}, {second}}, Leases: "/run/x/a"}}},
		"subnet and ranges": {`{"type": "host-local", "subnet": "10.0.0.0/24", "ranges": [[{"subnet": "fd00::/64"}]]}`, []Pool{{Sets: [][]AddressRange{{inline}, {second}}, Leases: "/var/lib/cni/networks/a"}}},
		"another plugin":    {`{"type": "dhcp"}`, nil},
		"invalid":           {`{"type": "host-local", "subnet": "10.0.0.0"}`, nil},
	} {
		n := load(t, map[string]string{"10-a.conf": `{"cniVersion": "1.0.0", "name": "a", "type": "bridge", "ipam": ` + test.ipam + `}`}).Networks[0]
		got := n.Pools()
		if diff := cmp.Diff(test.want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.AllowUnexported(AddressRange{})); diff != "" {
			t.Errorf("%s: pools (-want +got):\n%s", name, diff)
		}
	}
	if got := (Pool{Sets: [][]AddressRange{{inline, first}, {second}}}).Ranges(); !reflect.DeepEqual(got, []AddressRange{inline, first, second}) {
		t.Errorf("ranges of all sets: %v", got)
	}
}

// TestSharedPool has the ranges of allocnet-ipam as one set for each family.
func TestSharedPool(t *testing.T) {
	n := load(t, map[string]string{"10-a.conf": `{"cniVersion": "1.0.0", "name": "a", "type": "macvlan", "ipam": {"type": "allocnet-ipam", "pool": "vlan100",
		"ranges": [{"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.10", "rangeEnd": "10.0.0.29", "gateway": "10.0.0.12", "exclude": ["10.0.0.8/30", "10.0.0.9", "10.0.0.28/30"]},
			{"subnet": "fd00::/64"}, {"subnet": "10.1.0.0/31"}],
		"reserved": ["10.0.0.40/29", "fd00::40/126"], "dataDir": "/run/x"}}`}).Networks[0]
	pools := n.Pools()
	if len(pools) != 1 || pools[0].Leases != "/run/x/vlan100" || pools[0].Shared == nil {
		t.Fatalf("got %+v", pools)
	}
	p := pools[0]
	if len(p.Sets) != 2 || len(p.Sets[0]) != 2 || len(p.Sets[1]) != 1 {
		t.Fatalf("sets %+v, want one for each family", p.Sets)
	}
	var sizes []string
	for _, r := range p.Ranges() {
		sizes = append(sizes, r.Free([]netip.Addr{netip.MustParseAddr("10.0.0.11"), netip.MustParseAddr("10.0.0.13"), netip.MustParseAddr("10.0.0.28")}).String())
	}
	// Of 20 addresses, two are excluded at each end, one is the gateway, and one has a lease.
	if want := []string{"14", "2", "18446744073709551614"}; !slices.Equal(sizes, want) {
		t.Errorf("free %v, want %v", sizes, want)
	}
	for text, want := range map[string]string{
		"10.0.0.41":           "",
		"10.0.0.41/24":        "",
		"10.0.0.41/25":        "10.0.0.41 has the prefix length 25, and the network has 24: omit the length, or want 10.0.0.41/24",
		"fd00::41/0":          "fd00::41 has the prefix length 0",
		"10.0.0.41 fd00::41":  "",
		"10.0.0.41 10.0.0.42": "10.0.0.42 is the second one",
		"10.0.0.14":           "10.0.0.14 is not in a range of the network: want one of 10.0.0.40/29, fd00::40/126",
	} {
		var addresses []netip.Prefix
		for _, address := range strings.Fields(text) {
			a, bits, hasLength := strings.Cut(address, "/")
			length := -1
			if hasLength {
				length, _ = strconv.Atoi(bits)
			}
			addresses = append(addresses, netip.PrefixFrom(netip.MustParseAddr(a), length))
		}
		err := p.CheckRequested(addresses)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestSharedPoolRefuses an address that is reserved and yet never given out.
func TestSharedPoolRefuses(t *testing.T) {
	n := load(t, map[string]string{"10-a.conf": `{"cniVersion": "1.0.0", "name": "a", "type": "macvlan", "ipam": {"type": "allocnet-ipam", "pool": "p",
		"ranges": [{"subnet": "10.0.0.0/24", "exclude": ["10.0.0.2"]}], "reserved": ["10.0.0.0/30"]}}`}).Networks[0]
	for address, want := range map[string]string{"10.0.0.1": "is the gateway", "10.0.0.2": "is excluded", "10.0.0.0": "not a host's", "10.0.0.3": ""} {
		err := n.Pools()[0].CheckRequested([]netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(address), -1)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}

func TestLeased(t *testing.T) {
	p := Pool{Leases: filepath.Join(t.TempDir(), "a")}
	if leased, err := p.Leased(); err != nil || leased != nil {
		t.Errorf("missing directory: %v, %v, want no leases", leased, err)
	}
	if err := os.Mkdir(p.Leases, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"10.0.0.2", "fd00::2", "last_reserved_ip.0", "lock"} {
		if err := os.WriteFile(filepath.Join(p.Leases, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::2")}
	if leased, err := p.Leased(); err != nil || !slices.Equal(leased, want) {
		t.Errorf("%v, %v, want %v", leased, err, want)
	}
	if _, err := (Pool{Leases: filepath.Join(p.Leases, "lock")}).Leased(); err == nil {
		t.Error("a file is read as a directory")
	}
}

// TestCheckRequested has the reasons for which host-local refuses an address.
func TestCheckRequested(t *testing.T) {
	leases := t.TempDir()
	for _, address := range []string{"10.0.0.20", "fd00::20"} {
		if err := os.WriteFile(filepath.Join(leases, address), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := Pool{Sets: [][]AddressRange{
		{addressRange("10.0.0.0/24", "10.0.0.10", "10.0.0.29", "10.0.0.12"), addressRange("10.1.0.0/24", "", "", "")},
		{addressRange("fd00::/64", "", "", "")},
	}, Leases: leases}
	for text, want := range map[string]string{
		"10.0.0.10":          "",
		"10.1.0.9 fd00::9":   "",
		"10.0.0.30":          "10.0.0.30 is not in a range of the network: want one of 10.0.0.10 to 10.0.0.29, 10.1.0.1 to 10.1.0.254, fd00::1 to fd00::ffff:ffff:ffff:ffff",
		"192.0.2.1":          "is not in a range",
		"fd01::1":            "is not in a range",
		"10.0.0.12":          "is the gateway",
		"10.0.0.20":          "has a lease",
		"10.0.0.11 fd00::20": "fd00::20 has a lease",
		"10.0.0.10 10.1.0.9": "10.1.0.9 is the second one of its range",
	} {
		var addresses []netip.Prefix
		for _, address := range strings.Fields(text) {
			a, bits, hasLength := strings.Cut(address, "/")
			length := -1
			if hasLength {
				length, _ = strconv.Atoi(bits)
			}
			addresses = append(addresses, netip.PrefixFrom(netip.MustParseAddr(a), length))
		}
		err := p.CheckRequested(addresses)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
