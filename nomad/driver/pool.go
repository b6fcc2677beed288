// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/allocnet/allocnet/cniconf"
)

// pool is the addresses of a network with host-local IPAM.
type pool struct {
	// sets each give an allocation one address, of any of their ranges.
	sets   [][]addressRange
	leases string // the directory of the leases
}

// addressRange is a range as host-local's configuration has it; empty fields
// have its defaults.
type addressRange struct {
	Subnet     netip.Prefix `json:"subnet"`
	RangeStart netip.Addr   `json:"rangeStart"`
	RangeEnd   netip.Addr   `json:"rangeEnd"`
	Gateway    netip.Addr   `json:"gateway"`
}

// addressPool returns the pool of the first plugin that has one.
func addressPool(n *cniconf.Network) (pool, bool) {
	for _, p := range n.List.Plugins {
		var conf struct {
			IPAM struct {
				Type    string           `json:"type"`
				DataDir string           `json:"dataDir"`
				Ranges  [][]addressRange `json:"ranges"`
				addressRange
			} `json:"ipam"`
		}
		if json.Unmarshal(p.Bytes, &conf) != nil || conf.IPAM.Type != "host-local" {
			continue
		}
		sets := conf.IPAM.Ranges
		if conf.IPAM.Subnet.IsValid() {
			sets = append([][]addressRange{{conf.IPAM.addressRange}}, sets...)
		}
		dir := conf.IPAM.DataDir
		if dir == "" {
			dir = "/var/lib/cni/networks"
		}
		return pool{sets, filepath.Join(dir, n.Name)}, len(sets) > 0
	}
	return pool{}, false
}

// subnets lists them all.
func (p pool) subnets() string {
	var list []string
	for _, set := range p.sets {
		for _, r := range set {
			list = append(list, r.Subnet.String())
		}
	}
	return strings.Join(list, ",")
}

// free returns how many more allocations get an address of every set, at most
// math.MaxInt32.
func (p pool) free() (int, error) {
	leases, err := p.leased()
	if err != nil {
		return 0, err
	}
	least := big.NewInt(math.MaxInt32)
	for _, set := range p.sets {
		sum := new(big.Int)
		for _, r := range set {
			sum.Add(sum, r.free(leases))
		}
		if sum.Cmp(least) < 0 {
			least = sum
		}
	}
	return int(max(0, least.Int64())), nil
}

// leased returns the addresses that are given away.
func (p pool) leased() ([]netip.Addr, error) {
	entries, err := os.ReadDir(p.leases)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var leases []netip.Addr
	for _, entry := range entries {
		if address, err := netip.ParseAddr(entry.Name()); err == nil {
			leases = append(leases, address)
		}
	}
	return leases, nil
}

// free counts the addresses of a range that host-local gives away: not the
// subnet's own, its broadcast address and the gateway.
func (r addressRange) free(leases []netip.Addr) *big.Int {
	if !r.Subnet.IsValid() {
		return new(big.Int)
	}
	first, last, gateway := r.bounds()
	count := new(big.Int).Sub(number(last), number(first))
	count.Add(count, big.NewInt(1))
	inside := func(a netip.Addr) bool { return a.BitLen() == first.BitLen() && !a.Less(first) && !last.Less(a) }
	for _, lease := range leases {
		if inside(lease) && lease != gateway {
			count.Sub(count, big.NewInt(1))
		}
	}
	if inside(gateway) {
		count.Sub(count, big.NewInt(1))
	}
	return count
}

// bounds returns the first and the last address and the gateway.
func (r addressRange) bounds() (first, last, gateway netip.Addr) {
	network := r.Subnet.Masked().Addr()
	first, last, gateway = r.RangeStart, r.RangeEnd, r.Gateway
	if !first.IsValid() {
		first = network.Next()
	}
	if !gateway.IsValid() {
		gateway = network.Next()
	}
	if !last.IsValid() {
		end := new(big.Int).Lsh(big.NewInt(1), uint(network.BitLen()-r.Subnet.Bits()))
		end.Add(end, number(network)).Sub(end, big.NewInt(1))
		bytes := make([]byte, network.BitLen()/8)
		last, _ = netip.AddrFromSlice(end.FillBytes(bytes))
		if network.Is4() {
			last = last.Prev() // the broadcast address
		}
	}
	return first, last, gateway
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// configuredMTU returns that of the first plugin that has one, or 0.
func configuredMTU(n *cniconf.Network) int {
	for _, p := range n.List.Plugins {
		var conf struct {
			MTU int `json:"mtu"`
		}
		if json.Unmarshal(p.Bytes, &conf) == nil && conf.MTU > 0 {
			return conf.MTU
		}
	}
	return 0
}
