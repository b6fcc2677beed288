// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/internal/acd"
	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/internal/dhcp/client"
	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/netns"
)

// DHCP is the dhcp plugin with its daemon: it asks for a lease, which the agent extends, and which DEL releases.
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
}

func (c *dhcpConfig) validate() error {
	switch {
	case c.Identity != "" && c.Identity != perAllocation && c.Identity != perJob:
		return fmt.Errorf("identity of dhcp is %q: want %q or %q", c.Identity, perAllocation, perJob)
	case c.HostName != "" && c.HostName != perJob:
		return fmt.Errorf("hostname of dhcp is %q: want %q, or no key", c.HostName, perJob)
	}
	return nil
}

// identityOf returns what servers get to know of an attachment.
func identityOf(c *plugin.Call) (i client.Identity, err error) {
	var conf struct{ IPAM dhcpConfig }
	if err := c.Load(&conf); err != nil {
		return i, err
	}
	if err := conf.IPAM.validate(); err != nil {
		return i, types.NewError(types.ErrInvalidNetworkConfig, err.Error(), "")
	}
	if conf.IPAM.HostName == perJob {
		i.HostName = hostName(c.Lease.Job, c.Lease.Task)
	}
	i.ClientID, err = clientID(c, conf.IPAM.Identity)
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
	id, err := identityOf(c)
	if err != nil {
		return nil, err
	}
	conn, err := openInside(c, id)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, stop := context.WithTimeout(c.Ctx, client.Timeout)
	defer stop()
	record := recorderOf(c, id)
	l, err := conn.Acquire(ctx, wanted(c), record)
	if err == nil {
		err = record(l)
	}
	if err == nil && isShared(c, id) {
		l, err = takeOver(ctx, c, conn, l)
	}
	if err != nil {
		return nil, types.NewError(types.ErrTryAgainLater, fmt.Sprintf("network %q: interface %s: %v", c.Network, c.IfName, err), "")
	}
	return LeaseResult(l), nil
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
func takeOver(ctx context.Context, c *plugin.Call, conn *client.Client, l dhcp.Lease) (dhcp.Lease, error) {
	taken := false
	err := c.InNamespace(func() (err error) {
		taken, err = acd.Probe(ctx, c.IfName, l.Address.Addr())
		return err
	})
	if err == nil && !taken {
		if l, err = conn.Rebind(ctx, l); err == nil {
			return l, c.Lease.Record(l)
		}
	}
	if taken {
		err = fmt.Errorf("the address %s of %q is used by another allocation still: want it to end first, or \"identity\": \"allocation\"", l.Address, l.ClientID)
	}
	return l, err
}

// wanted is the address that an earlier ADD of the attachment has had.
func wanted(c *plugin.Call) netip.Addr {
	if c.Lease.Recorded == nil {
		return netip.Addr{}
	}
	return c.Lease.Recorded.Address.Addr()
}

// openInside sets the interface up, without an address, and opens it.
func openInside(c *plugin.Call, id client.Identity) (conn *client.Client, err error) {
	err = c.InNamespace(func() error {
		if err := links.SetUp(c.IfName); err != nil {
			return err
		}
		conn, err = client.Open(c.IfName, id)
		return err
	})
	if err == nil && conn == nil {
		err = fmt.Errorf("namespace %s does not exist", c.Netns)
	}
	return conn, err
}

// LeaseResult returns what a lease gives an attachment: nothing if it was lost.
func LeaseResult(l dhcp.Lease) *current.Result {
	r := &current.Result{CNIVersion: current.ImplementedSpecVersion}
	if l.Lost {
		return r
	}
	address, isOnLink := &current.IPConfig{Address: *netns.IPNet(l.Address)}, func(route dhcp.Route) bool { return !route.Via.IsValid() }
	if l.Gateway.IsValid() {
		r.Routes = append(r.Routes, &types.Route{Dst: *netns.IPNet(netip.PrefixFrom(netip.IPv4Unspecified(), 0)), GW: l.Gateway.AsSlice()})
		if !slices.ContainsFunc(l.Routes, isOnLink) { // else it would be that of these routes
			address.Gateway = l.Gateway.AsSlice()
		}
	}
	r.IPs = []*current.IPConfig{address}
	for _, route := range l.Routes {
		r.Routes = append(r.Routes, &types.Route{Dst: *netns.IPNet(route.To), GW: route.Via.AsSlice()})
	}
	for _, server := range l.DNS {
		r.DNS.Nameservers = append(r.DNS.Nameservers, server.String())
	}
	r.DNS.Domain, r.DNS.Search = l.Domain, l.Search
	return r
}

// checkDHCP requires that a lease is on record. Whether it is extended in time, the agent sees.
func checkDHCP(c *plugin.Call) error {
	if c.Lease == nil || c.Lease.Recorded == nil {
		return fmt.Errorf("dhcp: no lease of %s is on record", c.IfName)
	}
	return nil
}

// releaseDHCP gives the address back, while there is an interface by which its server can be told, which has not got the address any
// more. Otherwise the lease ends by itself.
func releaseDHCP(c *plugin.Call) {
	if c.Lease == nil || c.Lease.Recorded == nil || c.Lease.Recorded.Lost {
		return
	}
	l := *c.Lease.Recorded
	_ = c.InNamespace(func() error { // what fails, time does
		link, err := links.Find(c.IfName)
		if err != nil || link == nil {
			return err
		}
		if err := links.RemoveAddresses(link, l.Addresses()); err != nil {
			return err
		}
		conn, err := client.Open(c.IfName, client.Identity{ClientID: l.ClientID})
		if err != nil {
			return err
		}
		defer conn.Close()
		return conn.Release(l)
	})
}

// delDHCP has nothing more to do: releaseDHCP has, and what it could not, time does.
func delDHCP(*plugin.Call) error { return nil }
