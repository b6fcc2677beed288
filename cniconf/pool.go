// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// defaultLeaseDir is the default directory of host-local's leases. Each network has a
// subdirectory.
const defaultLeaseDir = "/var/lib/cni/networks"

// Pool is the address pool of a host-local plugin.
type Pool struct {
	// Sets are the range sets: an attachment gets one address of each, from any of
	// its ranges.
	Sets [][]AddressRange
	// Leases is the directory of the leases.
	Leases string
}

// AddressRange is a range of host-local. The default start and end are those of the
// subnet; the default gateway is the subnet's first address.
type AddressRange struct {
	Subnet     netip.Prefix `json:"subnet"`
	RangeStart netip.Addr   `json:"rangeStart"`
	RangeEnd   netip.Addr   `json:"rangeEnd"`
	Gateway    netip.Addr   `json:"gateway"`
}

// Pools returns the pools of the network's plugins that use host-local. A
// configuration that cannot be parsed has none: the plugin reports it.
func (n *Network) Pools() []Pool {
	var pools []Pool
	for _, plugin := range n.List.Plugins {
		var conf struct {
			IPAM struct {
				Type    string           `json:"type"`
				DataDir string           `json:"dataDir"`
				Ranges  [][]AddressRange `json:"ranges"`
				AddressRange
			} `json:"ipam"`
		}
		if json.Unmarshal(plugin.Bytes, &conf) != nil || conf.IPAM.Type != "host-local" {
			continue
		}
		sets, dir := conf.IPAM.Ranges, conf.IPAM.DataDir
		if conf.IPAM.Subnet.IsValid() {
			sets = append([][]AddressRange{{conf.IPAM.AddressRange}}, sets...)
		}
		if dir == "" {
			dir = defaultLeaseDir
		}
		pools = append(pools, Pool{sets, filepath.Join(dir, n.Name)})
	}
	return pools
}

// Ranges returns the ranges of all sets.
func (p Pool) Ranges() []AddressRange { return slices.Concat(p.Sets...) }

// Leased returns the addresses that have a lease. A missing directory has none.
func (p Pool) Leased() ([]netip.Addr, error) {
	entries, err := os.ReadDir(p.Leases)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var leased []netip.Addr
	for _, entry := range entries {
		if address, err := netip.ParseAddr(entry.Name()); err == nil {
			leased = append(leased, address)
		}
	}
	return leased, nil
}

// CheckRequested tells why host-local would refuse the addresses that an attachment
// requests: it wants at most one of each range set, and none that is leased.
func (p Pool) CheckRequested(addresses []netip.Addr) error {
	taken := make([]bool, len(p.Sets))
	for _, address := range addresses {
		i := slices.IndexFunc(p.Sets, func(set []AddressRange) bool {
			return slices.ContainsFunc(set, func(r AddressRange) bool { return r.contains(address) })
		})
		switch {
		case i < 0:
			return &AddressError{address, "is not in a range of the network: want one of " + p.describe()}
		case taken[i]:
			return &AddressError{address, "is the second one of its range: an attachment has one address of each"}
		case slices.ContainsFunc(p.Sets[i], func(r AddressRange) bool { _, _, gateway := r.bounds(); return gateway == address }):
			return &AddressError{address, "is the gateway of the network: choose another one"}
		}
		taken[i] = true
		if _, err := os.Lstat(filepath.Join(p.Leases, address.String())); err == nil {
			return &AddressError{address, "has a lease, so another allocation has this address: choose another one, or run allocnet gc if that allocation is dead"}
		}
	}
	return nil
}

// AddressError is a requested address that host-local would refuse.
type AddressError struct {
	Address netip.Addr
	Reason  string
}

func (e *AddressError) Error() string { return e.Address.String() + " " + e.Reason }

// Kind is that of package errdefs.
func (*AddressError) Kind() errdefs.Kind { return errdefs.Refused }

func (p Pool) describe() string {
	var all []string
	for _, r := range p.Ranges() {
		first, last, _ := r.bounds()
		all = append(all, fmt.Sprintf("%s to %s", first, last))
	}
	return strings.Join(all, ", ")
}

// contains tells whether the range can assign the address, or has it as its gateway.
func (r AddressRange) contains(address netip.Addr) bool {
	if !r.Subnet.IsValid() || !r.Subnet.Contains(address) {
		return false
	}
	first, last, _ := r.bounds()
	return !address.Less(first) && !last.Less(address)
}

// Size is the number of addresses that the range can assign: all but the gateway. It
// is a big.Int because of IPv6. A range without a subnet, or whose end is before its
// start, has none.
func (r AddressRange) Size() *big.Int { return r.Free(nil) }

// Free is Size without the leased addresses.
func (r AddressRange) Free(leased []netip.Addr) *big.Int {
	if !r.Subnet.IsValid() {
		return new(big.Int)
	}
	first, last, gateway := r.bounds()
	count := new(big.Int).Sub(number(last), number(first))
	count.Add(count, big.NewInt(1))
	inside := func(a netip.Addr) bool { return a.BitLen() == first.BitLen() && !a.Less(first) && !last.Less(a) }
	for _, lease := range leased {
		if inside(lease) && lease != gateway {
			count.Sub(count, big.NewInt(1))
		}
	}
	if inside(gateway) {
		count.Sub(count, big.NewInt(1))
	}
	if count.Sign() < 0 {
		return new(big.Int)
	}
	return count
}

// bounds are those of host-local's canonical range (its Range.Canonicalize): neither
// the network address nor, for IPv4, the broadcast address is assigned.
func (r AddressRange) bounds() (first, last, gateway netip.Addr) {
	first, last, gateway = r.RangeStart, r.RangeEnd, r.Gateway
	start := r.Subnet.Masked().Addr().Next()
	if !first.IsValid() {
		first = start
	}
	if !gateway.IsValid() {
		gateway = start
	}
	if !last.IsValid() {
		last = lastAddress(r.Subnet)
	}
	return first, last, gateway
}

func lastAddress(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes) // of the length it came in
	if last.Is4() {
		return last.Prev()
	}
	return last
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }
