// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/internal/acd"
	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/internal/dhcp/client"
	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/netns"
)

// DHCP is the dhcp plugin with its daemon: it asks for leases, which the agent extends, and which DEL releases.
var DHCP = plugin.Type{
	Config: func() any { return &dhcpConfig{} },
	Add:    addDHCP, Check: checkDHCP, Del: delDHCP, Leave: releaseDHCP,
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

// identityOf returns what servers get to know of an attachment.
func (c *dhcpConfig) identityOf(call *plugin.Call) (i client.Identity, err error) {
	if c.HostName == perJob {
		i.HostName = hostName(call.Lease.Job, call.Lease.Task)
	}
	i.ClientID, err = clientID(call, c.Identity)
	return i, err
}

// slashes replaces what separates the parts of an identifier: authors of jobs choose parts.
var slashes = strings.NewReplacer("%", "%25", "/", "%2F")

// maxClientID is the length of the longest identifier.
const maxClientID = 254

// clientID returns the identifier of the reference plugin, or that of the place that an allocation has in its job: its replacement has
// the same one. What is too long is hashed, so that it stays unique.
func clientID(c *plugin.Call, identity string) (string, error) {
	id := c.ContainerID + "/" + c.Network + "/" + c.IfName
	if identity == perJob {
		key, err := jobKey(c)
		if err != nil {
			return "", err
		}
		parts := []string{"nomad", c.Lease.Namespace, c.Lease.Job, c.Lease.Group, key, c.Network, c.IfName}
		for i, part := range parts { // else job "a/b" with group "c" would be job "a" with group "b/c"
			parts[i] = slashes.Replace(part)
		}
		id = strings.Join(parts, "/")
	}
	if len(id) > maxClientID {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:])
	}
	return id, nil
}

// jobKey returns what distinguishes the allocations of a group.
func jobKey(c *plugin.Call) (string, error) {
	if c.Lease.Namespace == "" || c.Lease.Job == "" || c.Lease.Group == "" {
		return "", types.NewError(types.ErrInvalidNetworkConfig, `identity of dhcp is "job", and the job of the allocation is not known: want an allocation of Nomad, or "identity": "allocation"`, "")
	}
	given := map[string]string{}
	for pair := range strings.SplitSeq(c.Args, ";") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			given[key] = value
		}
	}
	for _, name := range []string{"ADDRESS_KEY", "NOMAD_ALLOC_INDEX"} {
		if given[name] != "" {
			return given[name], nil
		}
	}
	return "", types.NewError(types.ErrInvalidNetworkConfig, `identity of dhcp is "job", and CNI_ARGS have neither ADDRESS_KEY nor NOMAD_ALLOC_INDEX: want one, as in cni { args { ADDRESS_KEY = "${NOMAD_ALLOC_INDEX}" } }`, "")
}

// maxLabel is the length of the longest label of a name.
const maxLabel = 63

// hostName returns a label of DNS that job and task make; empty if they make none. A job's author chooses them.
func hostName(job, task string) string {
	name := job
	if task != "" {
		name += "-" + task
	}
	label := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
	label = strings.Trim(label, "-")
	return strings.TrimRight(label[:min(len(label), maxLabel)], "-")
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
	ctx, stop := context.WithTimeout(c.Ctx, client.Timeout) // for both families
	defer stop()
	var leases []dhcp.Lease
	for _, family := range conf.families() {
		l, err := acquire(ctx, c, id, family)
		if err != nil {
			return nil, types.NewError(types.ErrTryAgainLater, fmt.Sprintf("network %q: interface %s: %v", c.Network, c.IfName, err), "")
		}
		leases = append(leases, l)
	}
	return LeaseResult(leases...), nil
}

// acquire asks for the lease of a family.
func acquire(ctx context.Context, c *plugin.Call, id client.Identity, family dhcp.Family) (l dhcp.Lease, err error) {
	servers, err := openInside(ctx, c, id, family)
	if err != nil {
		return l, err
	}
	defer servers.Close()
	record := recorderOf(c, id)
	l, err = servers.Acquire(ctx, wanted(c, family), record)
	if err == nil {
		err = record(l)
	}
	if err == nil && isShared(c, id) {
		l, err = takeOver(ctx, c, servers, l)
	}
	return l, err
}

// isShared tells whether another allocation may have the lease of the same client.
func isShared(c *plugin.Call, id client.Identity) bool {
	return !strings.HasPrefix(id.ClientID, c.ContainerID+"/")
}

// recorderOf returns what records a lease that is not made sure of. What another allocation may have is on record as lost until then:
// after a kill or a failure, DEL would release what the other one uses.
func recorderOf(c *plugin.Call, id client.Identity) func(dhcp.Lease) error {
	return func(l dhcp.Lease) error {
		l.Lost = isShared(c, id)
		return c.Lease.Record(l)
	}
}

// takeOver makes sure of a lease whose client another allocation of the job was. It may have the address still, or may just have
// released it: then the server is asked once more.
func takeOver(ctx context.Context, c *plugin.Call, servers client.Servers, l dhcp.Lease) (dhcp.Lease, error) {
	taken := false
	err := c.InNamespace(func() (err error) {
		taken, err = acd.Probe(ctx, c.IfName, l.Address.Addr())
		return err
	})
	if err == nil && !taken {
		if l, err = servers.Rebind(ctx, l); err == nil {
			return l, c.Lease.Record(l)
		}
	}
	if taken {
		err = fmt.Errorf("the address %s of %q is used by another allocation still: want it to end first, or \"identity\": \"allocation\"", l.Address, l.ClientID)
	}
	return l, err
}

// wanted is the address of a family that an earlier ADD of the attachment has had.
func wanted(c *plugin.Call, family dhcp.Family) netip.Addr {
	if l := c.Lease.Of(family); l != nil {
		return l.Address.Addr()
	}
	return netip.Addr{}
}

// openInside sets the interface up, without an address, and opens it.
func openInside(ctx context.Context, c *plugin.Call, id client.Identity, family dhcp.Family) (servers client.Servers, err error) {
	err = c.InNamespace(func() error {
		if err := links.SetUp(c.IfName); err != nil {
			return err
		}
		servers, err = client.Open(ctx, c.IfName, family, id)
		return err
	})
	if err == nil && servers == nil {
		err = fmt.Errorf("namespace %s does not exist", c.Netns)
	}
	return servers, err
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

// checkDHCP requires that leases are on record. Whether they are extended in time, the agent sees.
func checkDHCP(c *plugin.Call) error {
	conf, err := readDHCP(c)
	if err != nil {
		return err
	}
	for _, family := range conf.families() {
		if c.Lease.Of(family) == nil {
			return fmt.Errorf("dhcp: no lease of an address of %s is on record (%s)", c.IfName, family)
		}
	}
	return nil
}

// releaseDHCP gives the addresses back, while there is an interface by which their servers can be told, which has not got the addresses
// any more. Otherwise the leases end by themselves.
func releaseDHCP(c *plugin.Call) {
	if c.Lease == nil {
		return
	}
	for _, l := range c.Lease.Recorded {
		if !l.Lost {
			_ = c.InNamespace(func() error { return release(c, l) }) // what fails, time does
		}
	}
}

// releaseTimeout is how long a release waits for an interface, which was usable before unless the allocation changed it.
const releaseTimeout = time.Second

func release(c *plugin.Call, l dhcp.Lease) error {
	link, err := links.Find(c.IfName)
	if err != nil || link == nil {
		return err
	}
	if err := links.RemoveAddresses(link, l.Addresses()); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(c.Ctx, releaseTimeout)
	defer stop()
	servers, err := client.Open(ctx, c.IfName, l.Family(), client.Identity{ClientID: l.ClientID})
	if err != nil {
		return err
	}
	defer servers.Close()
	return servers.Release(l)
}

// delDHCP has nothing more to do: releaseDHCP has, and what it could not, time does.
func delDHCP(*plugin.Call) error { return nil }
