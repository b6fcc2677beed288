// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/internal/dhcp/client"
	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netns"
)

// DHCP is the dhcp plugin with its daemon: it asks for leases, which the agent extends, and which DEL releases.
var DHCP = plugin.Type{
	Config: func() any { return &dhcpConfig{} },
	Add:    addDHCP, Del: delDHCP, Leave: releaseDHCP,
	Understands: func(config []byte) error {
		conf := &dhcpConfig{}
		if err := json.Unmarshal(config, conf); err != nil {
			return err
		}
		return conf.validate()
	},
}

// Values of the keys.
const (
	perAllocation = "allocation"
	perJob        = "job"
)

// dhcpConfig is the configuration of the IPAM type dhcp.
type dhcpConfig struct {
	Type string `json:"type"`
	// Identity is what servers know an attachment by: its allocation, or its job, group and index. Default: allocation.
	Identity string `json:"identity"`
	// HostName is the name that servers get: that of the job. Default: none.
	HostName string `json:"hostname"`
	// Families are those that addresses are asked for of. Default: IPv4.
	Families []dhcp.Family `json:"families"`
}

// families are those of the configuration, IPv4 first.
func (c *dhcpConfig) families() []dhcp.Family {
	if c.Families == nil {
		return []dhcp.Family{dhcp.IPv4}
	}
	return slices.Sorted(slices.Values(c.Families))
}

func (c *dhcpConfig) validate() error {
	of := slices.Compact(slices.Sorted(slices.Values(c.Families)))
	isUnknown := func(f dhcp.Family) bool { return f != dhcp.IPv4 && f != dhcp.IPv6 }
	switch {
	case c.Families != nil && (len(of) == 0 || len(of) != len(c.Families) || slices.ContainsFunc(of, isUnknown)):
		return fmt.Errorf("families of dhcp are %q: want %q, %q or both", c.Families, dhcp.IPv4, dhcp.IPv6)
	case c.Identity != "" && c.Identity != perAllocation && c.Identity != perJob:
		return fmt.Errorf("identity of dhcp is %q: want %q or %q", c.Identity, perAllocation, perJob)
	case c.HostName != "" && c.HostName != perJob:
		return fmt.Errorf("hostname of dhcp is %q: want %q, or no key", c.HostName, perJob)
	}
	return nil
}

func readDHCP(c *plugin.Call) (*dhcpConfig, error) {
	var conf struct{ IPAM dhcpConfig }
	if err := c.Load(&conf); err != nil {
		return nil, err
	}
	if err := conf.IPAM.validate(); err != nil {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, err.Error(), "")
	}
	return &conf.IPAM, nil
}

// errNoKeeper is a call of what keeps no leases.
var errNoKeeper = errors.New("leases of DHCP are not kept by this process")

func addDHCP(c *plugin.Call) (*current.Result, error) {
	if c.Lease == nil || c.Lease.Record == nil {
		return nil, errNoKeeper
	}
	conf, err := readDHCP(c)
	if err != nil {
		return nil, err
	}
	id, err := conf.identityOf(c)
	if err != nil {
		return nil, err
	}
	leases, err := acquireAll(c, id, conf.families())
	if err != nil {
		each := strings.ReplaceAll(err.Error(), "\n", "; ")
		return nil, types.NewError(types.ErrTryAgainLater, fmt.Sprintf("network %q: interface %s: %s", c.Network, c.IfName, each), "")
	}
	return LeaseResult(leases...), nil
}

// acquireAll asks for the leases of all families at the same time.
func acquireAll(c *plugin.Call, id client.Identity, families []dhcp.Family) ([]dhcp.Lease, error) {
	ctx, stop := context.WithTimeout(c.Ctx, client.Timeout)
	defer stop()
	record := recorderOf(c, id)
	leases, errs := make([]dhcp.Lease, len(families)), make([]error, len(families))
	var group sync.WaitGroup
	for i, family := range families {
		group.Go(func() {
			defer within.RecoverInto(errs[i : i+1])
			leases[i], errs[i] = acquire(ctx, c, id, family, record)
		})
	}
	group.Wait()
	return leases, errors.Join(errs...)
}

// acquire asks for the lease of a family.
func acquire(ctx context.Context, c *plugin.Call, id client.Identity, family dhcp.Family, record func(l dhcp.Lease, sure bool) error) (l dhcp.Lease, err error) {
	if err := c.InNamespace(func() error { return links.SetUp(c.IfName) }); err != nil {
		return l, err
	}
	servers, err := client.Open(ctx, c.InNamespace, c.IfName, family, id)
	if err != nil {
		return l, err
	}
	defer servers.Close()
	l, err = servers.Acquire(ctx, Wanted(c.Lease.Of(family)), func(l dhcp.Lease) error { return record(l, false) })
	if used, ok := errors.AsType[*client.InUseError](err); ok && id.Shared {
		err = fmt.Errorf("the address %s of %q is used by another allocation still: want it to end first, or \"identity\": \"allocation\"", used.Address, id.ClientID)
	}
	if err == nil {
		err = record(l, true)
	}
	return l, err
}

// recorderOf returns what records a lease, for several at the same time. What another allocation may have is on record as lost until it is
// made sure of: after a kill or a failure, DEL would release what the other one uses.
func recorderOf(c *plugin.Call, id client.Identity) func(l dhcp.Lease, sure bool) error {
	var mu sync.Mutex
	return func(l dhcp.Lease, sure bool) error {
		mu.Lock()
		defer mu.Unlock()
		l.Lost = l.Lost || id.Shared && !sure
		return c.Lease.Record(l)
	}
}

// Wanted is the address of an earlier lease of an attachment, which may be nil. Servers may give one that was declined again if it is wanted.
func Wanted(l *dhcp.Lease) netip.Addr {
	if l != nil && !l.Declined {
		return l.Address.Addr()
	}
	return netip.Addr{}
}

// LeaseResult returns what leases of an attachment give it: nothing if they were lost.
func LeaseResult(leases ...dhcp.Lease) *current.Result {
	r := &current.Result{CNIVersion: current.ImplementedSpecVersion}
	for _, l := range leases {
		if !l.Lost {
			addLease(r, l)
		}
	}
	return r
}

func addLease(r *current.Result, l dhcp.Lease) {
	address, isOnLink := &current.IPConfig{Address: *netns.IPNet(l.Address)}, func(route dhcp.Route) bool { return !route.Via.IsValid() }
	if l.Gateway.IsValid() {
		r.Routes = append(r.Routes, &types.Route{Dst: *netns.IPNet(netip.PrefixFrom(netip.IPv4Unspecified(), 0)), GW: l.Gateway.AsSlice()})
		if !slices.ContainsFunc(l.Routes, isOnLink) { // else it would be that of these routes
			address.Gateway = l.Gateway.AsSlice()
		}
	}
	r.IPs = append(r.IPs, address)
	for _, route := range l.Routes {
		r.Routes = append(r.Routes, &types.Route{Dst: *netns.IPNet(route.To), GW: route.Via.AsSlice()})
	}
	for _, server := range l.DNS {
		r.DNS.Nameservers = append(r.DNS.Nameservers, server.String())
	}
	r.DNS.Domain = cmp.Or(r.DNS.Domain, l.Domain)
	for _, name := range l.Search {
		if !slices.Contains(r.DNS.Search, name) {
			r.DNS.Search = append(r.DNS.Search, name)
		}
	}
}

// releaseDHCP gives the addresses back, while there is an interface by which their servers can be told, which has not got the addresses
// any more. Otherwise the leases end by themselves.
func releaseDHCP(c *plugin.Call) {
	if c.Lease == nil {
		return
	}
	for _, l := range c.Lease.Recorded {
		if !l.Lost {
			_ = release(c, l) // what fails, time does
		}
	}
}

// releaseTimeout is how long a release waits for an interface, which was usable before unless the allocation changed it.
const releaseTimeout = time.Second

func release(c *plugin.Call, l dhcp.Lease) error {
	err := c.InNamespace(func() error {
		link, err := links.Find(c.IfName)
		if err != nil || link == nil {
			return err
		}
		return links.RemoveAddresses(link, l.Addresses())
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(c.Ctx, releaseTimeout)
	defer stop()
	servers, err := client.Open(ctx, c.InNamespace, c.IfName, l.Family(), client.Identity{ClientID: l.ClientID})
	if err != nil {
		return err
	}
	defer servers.Close()
	return servers.Release(l)
}

// delDHCP has nothing more to do: releaseDHCP has, and what it could not, time does.
func delDHCP(*plugin.Call) error { return nil }
