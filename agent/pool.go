// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"encoding/json"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/allocnet/allocnet/cniconf"
)

// pool is what one family of a network's addresses has and uses.
type pool struct {
	family string // "ipv4" or "ipv6"
	size   float64
	used   int
}

// hostLocal is the configuration of the host-local plugin, as far as the size
// of its pools goes.
type hostLocal struct {
	Type    string      `json:"type"`
	DataDir string      `json:"dataDir"`
	Ranges  [][]ipRange `json:"ranges"`
	ipRange
}

type ipRange struct {
	Subnet     netip.Prefix `json:"subnet"`
	RangeStart netip.Addr   `json:"rangeStart"`
	RangeEnd   netip.Addr   `json:"rangeEnd"`
	Gateway    netip.Addr   `json:"gateway"`
}

// poolsOf returns the pools of the network's host-local plugins, IPv4 first;
// other IPAM plugins do not say how many addresses they have.
func poolsOf(n *cniconf.Network) []pool {
	v4, v6 := pool{family: "ipv4"}, pool{family: "ipv6"}
	for _, plugin := range n.List.Plugins {
		var conf struct {
			IPAM hostLocal `json:"ipam"`
		}
		if json.Unmarshal(plugin.Bytes, &conf) != nil || conf.IPAM.Type != "host-local" {
			continue // the plugin will say what is wrong with it
		}
		conf.IPAM.measure(&v4, &v6)
		conf.IPAM.count(n.Name, &v4, &v6)
	}
	var pools []pool
	for _, p := range []pool{v4, v6} {
		if p.size > 0 {
			pools = append(pools, p)
		}
	}
	return pools
}

func (h *hostLocal) measure(v4, v6 *pool) {
	ranges := []ipRange{h.ipRange}
	for _, set := range h.Ranges {
		ranges = append(ranges, set...)
	}
	for _, r := range ranges {
		if !r.Subnet.IsValid() {
			continue
		}
		if r.Subnet.Addr().Is4() {
			v4.size += r.size()
		} else {
			v6.size += r.size()
		}
	}
}

// count counts the leases, which are files named by their address.
func (h *hostLocal) count(network string, v4, v6 *pool) {
	dir := h.DataDir
	if dir == "" {
		dir = "/var/lib/cni/networks"
	}
	entries, err := os.ReadDir(filepath.Join(dir, network))
	if err != nil {
		return // nothing was leased yet
	}
	for _, entry := range entries {
		address, err := netip.ParseAddr(entry.Name())
		switch {
		case err != nil:
		case address.Is4():
			v4.used++
		default:
			v6.used++
		}
	}
}

// size is the number of addresses that host-local leases from a range: from the
// first after the subnet's to the last, for IPv4 without the broadcast address,
// less the gateway, which is the first unless given.
func (r ipRange) size() float64 {
	first := r.Subnet.Masked().Addr().Next()
	gateway := r.Gateway
	if !gateway.IsValid() {
		gateway = first
	}
	if r.RangeStart.IsValid() {
		first = r.RangeStart
	}
	last := r.RangeEnd
	if !last.IsValid() {
		last = lastOf(r.Subnet)
	}
	difference := new(big.Int).Sub(number(last), number(first))
	size, _ := new(big.Float).SetInt(difference.Add(difference, big.NewInt(1))).Float64()
	if first.Compare(gateway) <= 0 && gateway.Compare(last) <= 0 {
		size--
	}
	return max(0, size)
}

func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 1 << (7 - bit%8)
	}
	last, _ := netip.AddrFromSlice(bytes) // as long as it was
	if last.Is4() {
		return last.Prev()
	}
	return last
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }
