// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"cmp"
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

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// defaultLeaseDir is the default directory of host-local's leases. Each network has a
// subdirectory.
const defaultLeaseDir = "/var/lib/cni/networks"

// Pool is the address pool of a host-local or allocnet-ipam plugin.
type Pool struct {
	// Sets are the range sets: an attachment gets one address of each, from any of
	// its ranges. Those of allocnet-ipam are the families.
	Sets [][]AddressRange
	// Leases is the directory of the leases of this host.
	Leases string
	// Shared is the configuration of allocnet-ipam, whose other leases are on other hosts.
	// Nil: host-local.
	Shared *ipam.Config
}

// Pools returns the pools of the network's plugins that use host-local or allocnet-ipam. A
// configuration that cannot be parsed has none: the plugin reports it.
func (n *Network) Pools() []Pool {
	var pools []Pool
	for _, p := range n.Chain() {
		if pool, ok := p.pool(n.Name); ok {
			pools = append(pools, pool)
		}
	}
	return pools
}

// pool returns that of the plugin in a network.
func (p Plugin) pool(network string) (Pool, bool) {
	switch p.IPAMType {
	case "host-local":
		return localPool(p.IPAM, network)
	case "allocnet-ipam":
		return sharedPool(p.IPAM)
	}
	return Pool{}, false
}

// PublishAddress returns the configuration of the addresses that the network publishes ports on, with the key "ipam" as a plugin; nil
// if it has none.
func (n *Network) PublishAddress() json.RawMessage {
	var options struct {
		PublishAddress json.RawMessage `json:"publishAddress"`
	}
	if json.Unmarshal(n.Options.Data, &options) != nil {
		return nil // the policy reports the mistake
	}
	return options.PublishAddress
}

func localPool(config []byte, network string) (Pool, bool) {
	var conf struct {
		DataDir string           `json:"dataDir"`
		Ranges  [][]AddressRange `json:"ranges"`
		AddressRange
	}
	if json.Unmarshal(config, &conf) != nil {
		return Pool{}, false
	}
	sets := conf.Ranges
	if conf.Subnet.IsValid() {
		sets = append([][]AddressRange{{conf.AddressRange}}, sets...)
	}
	return Pool{Sets: sets, Leases: filepath.Join(cmp.Or(conf.DataDir, defaultLeaseDir), network)}, true
}

func sharedPool(config []byte) (Pool, bool) {
	conf, err := ipam.Parse(config)
	if err != nil {
		return Pool{}, false
	}
	p := Pool{Leases: filepath.Join(conf.DataDir, conf.Pool), Shared: conf}
	sets := map[ipam.Family][]AddressRange{}
	for _, r := range conf.Ranges {
		f := ipam.FamilyOf(r.Start)
		sets[f] = append(sets[f], AddressRange{
			Subnet: r.Subnet, RangeStart: r.Start, RangeEnd: r.End, Gateway: r.Gateway, exclude: r.Exclude, complete: true,
		})
	}
	for _, f := range conf.Families() {
		p.Sets = append(p.Sets, sets[f])
	}
	return p, true
}

// Ranges returns the ranges of all sets.
func (p Pool) Ranges() []AddressRange { return slices.Concat(p.Sets...) }

// Subnets returns those of the network's pools, each once.
func (n *Network) Subnets() []netip.Prefix {
	all := []netip.Prefix{}
	for _, p := range n.Pools() {
		for _, r := range p.Ranges() {
			if r.Subnet.IsValid() && !slices.Contains(all, r.Subnet) {
				all = append(all, r.Subnet)
			}
		}
	}
	return all
}

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

// CheckRequested tells why the plugin would refuse the addresses that an attachment
// requests: it wants at most one of each range set, and none that is leased. allocnet-ipam
// wants reserved ones. A prefix of an address that is not -1 bits long is that of its subnet.
func (p Pool) CheckRequested(addresses []netip.Prefix) error {
	taken := make([]bool, len(p.Sets))
	for _, requested := range addresses {
		address := requested.Addr()
		i := p.setOf(address)
		switch {
		case i < 0:
			return refuseAddress(address, "is not in a range of the network: want one of "+p.describe())
		case taken[i]:
			return refuseAddress(address, "is the second one of its range: an attachment has one address of each")
		case slices.ContainsFunc(p.Sets[i], func(r AddressRange) bool { _, _, gateway := r.bounds(); return gateway == address }):
			return refuseAddress(address, "is the gateway of the network: choose another one")
		case p.Shared != nil && !p.Shared.IsReserved(address):
			return refuseAddress(address, "is excluded, or not a host's: choose another one")
		}
		if bits := p.bitsOf(i, address); requested.Bits() >= 0 && requested.Bits() != bits {
			return refuseAddress(address, fmt.Sprintf("has the prefix length %d, and the network has %d: omit the length, or want %s/%d", requested.Bits(), bits, address, bits))
		}
		taken[i] = true
		if _, err := os.Lstat(filepath.Join(p.Leases, address.String())); err == nil {
			return refuseAddress(address, "has a lease, so another allocation has this address: choose another one, or run allocnet gc if that allocation is dead")
		}
	}
	return nil
}

func (p Pool) bitsOf(set int, address netip.Addr) int {
	for _, r := range p.Sets[set] {
		if r.Subnet.Contains(address) {
			return r.Subnet.Bits()
		}
	}
	return -1
}

// setOf returns the range set that an address can be requested from; -1 if there is none.
func (p Pool) setOf(address netip.Addr) int {
	if p.Shared != nil {
		if !ipam.AnyContains(p.Shared.Reserved, address) {
			return -1
		}
		return slices.Index(p.Shared.Families(), ipam.FamilyOf(address))
	}
	return slices.IndexFunc(p.Sets, func(set []AddressRange) bool {
		return slices.ContainsFunc(set, func(r AddressRange) bool { return r.contains(address) })
	})
}

// refuseAddress is the error of a requested address that the IPAM plugin would refuse.
func refuseAddress(address netip.Addr, reason string) error {
	return errdefs.As(errdefs.Refused, fmt.Errorf("%s %s", address, reason))
}

// describe lists what addresses can be requested from.
func (p Pool) describe() string {
	var all []string
	if p.Shared != nil {
		for _, prefix := range p.Shared.Reserved {
			all = append(all, prefix.String())
		}
		if len(all) == 0 {
			return `the addresses in "reserved", which is empty`
		}
		return strings.Join(all, ", ")
	}
	for _, r := range p.Ranges() {
		first, last, _ := r.bounds()
		all = append(all, fmt.Sprintf("%s to %s", first, last))
	}
	return strings.Join(all, ", ")
}

// Usage counts the addresses of one family in the pools of a network: those of host-local and
// of allocnet-ipam. An IPv6 range would hide that of IPv4 in a sum.
type Usage struct {
	// Family is "ipv4" or "ipv6".
	Family string `json:"family"`
	// Used is the number of addresses that have a lease on this host.
	Used int `json:"used"`
	// Total is the number of addresses that the plugin can assign. That of an IPv6
	// subnet can exceed 64 bits.
	Total *big.Int `json:"total"`
}

// Usage counts each family that has an address, IPv4 first. Pools of other IPAM plugins
// are unknown. With an error, leases that could not be read are not counted.
func (n *Network) Usage() ([]Usage, error) {
	v4, v6 := Usage{"ipv4", 0, new(big.Int)}, Usage{"ipv6", 0, new(big.Int)}
	of := func(a netip.Addr) *Usage {
		if a.Is4() {
			return &v4
		}
		return &v6
	}
	var failed error
	for _, p := range n.Pools() {
		for _, r := range p.Ranges() {
			u := of(r.Subnet.Addr())
			u.Total.Add(u.Total, r.Size())
		}
		leased, err := p.Leased()
		failed = errors.Join(failed, err)
		for _, address := range leased {
			of(address).Used++
		}
	}
	var usage []Usage
	for _, u := range []Usage{v4, v6} {
		if u.Total.Sign() > 0 {
			usage = append(usage, u)
		}
	}
	return usage, failed
}
