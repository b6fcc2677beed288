// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/internal/dhcp/client"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
)

func dhcpCall(ipam, args string, of plugin.Lease) *plugin.Call {
	return &plugin.Call{ContainerID: "a1", Network: "lan", IfName: "net0", Args: args, Lease: &of, Config: fmt.Appendf(nil, `{"name": "lan", "ipam": {"type": "dhcp"%s}}`, ipam)}
}

// identify returns the identity of the configuration of a call.
func identify(c *plugin.Call) (client.Identity, error) {
	conf, err := readDHCP(c)
	if err != nil {
		return client.Identity{}, err
	}
	return conf.identityOf(c)
}

// TestDHCPIdentity: what servers know an attachment by, and what cannot be known is an error.
func TestDHCPIdentity(t *testing.T) {
	job := plugin.Lease{Namespace: "prod", Job: "db", Group: "g", Task: "main"}
	for name, test := range map[string]struct {
		ipam, args       string
		of               plugin.Lease
		id, host, failed string
	}{
		"default":              {of: job, id: "a1/lan/net0"},
		"allocation":           {ipam: `, "identity": "allocation"`, id: "a1/lan/net0"},
		"job":                  {ipam: `, "identity": "job"`, args: "x=y;NOMAD_ALLOC_INDEX=2", of: job, id: "nomad/prod/db/g/2/lan/net0"},
		"a key of the job":     {ipam: `, "identity": "job"`, args: "NOMAD_ALLOC_INDEX=2;ADDRESS_KEY=first", of: job, id: "nomad/prod/db/g/first/lan/net0"},
		"without an index":     {ipam: `, "identity": "job"`, of: job, failed: "have neither ADDRESS_KEY nor NOMAD_ALLOC_INDEX"},
		"without a job":        {ipam: `, "identity": "job"`, args: "ADDRESS_KEY=1", failed: "the job of the allocation is not known"},
		"another value":        {ipam: `, "identity": "task"`, failed: `identity of dhcp is "task": want "allocation" or "job"`},
		"host name":            {ipam: `, "hostname": "job"`, of: job, id: "a1/lan/net0", host: "db-main"},
		"another host name":    {ipam: `, "hostname": "db"`, failed: `hostname of dhcp is "db": want "job", or no key`},
		"host name of no job":  {ipam: `, "hostname": "job"`, id: "a1/lan/net0"},
		"a group without task": {ipam: `, "hostname": "job"`, of: plugin.Lease{Job: "Web.Front/x\n\"é-"}, id: "a1/lan/net0", host: "web-front-x"},
	} {
		got, err := identify(dhcpCall(test.ipam, test.args, test.of))
		if test.failed != "" {
			if err == nil || !strings.Contains(err.Error(), test.failed) {
				t.Errorf("%s: %v, want %s", name, err, test.failed)
			}
			continue
		}
		if err != nil || got.ClientID != test.id || got.HostName != test.host {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestDHCPIdentitiesOfOthers: no job has the identity of another one, whatever its author names it.
func TestDHCPIdentitiesOfOthers(t *testing.T) {
	seen := map[string]plugin.Lease{}
	for args, all := range map[string][]plugin.Lease{
		"ADDRESS_KEY=0":   {{Namespace: "n", Job: "a/b", Group: "c"}, {Namespace: "n", Job: "a", Group: "b/c"}, {Namespace: "n", Job: "a%2Fb", Group: "c"}, {Namespace: "n", Job: "a", Group: "b"}},
		"ADDRESS_KEY=c/0": {{Namespace: "n", Job: "a", Group: "b"}},
		"ADDRESS_KEY=b/0": {{Namespace: "n", Job: "a", Group: "b"}},
	} {
		for _, of := range all {
			got, err := identify(dhcpCall(`, "identity": "job"`, args, of))
			if other, isThere := seen[got.ClientID]; err != nil || isThere {
				t.Errorf("%+v with %s is %q, as %+v, %v", of, args, got.ClientID, other, err)
			}
			seen[got.ClientID] = of
		}
	}
}

// TestUnsureLease: a lease that another allocation of the job may have is on record as one that DEL does not release, until it is made sure
// of. One that was declined stays lost.
func TestUnsureLease(t *testing.T) {
	for _, test := range []struct {
		identity         string
		sure, lost, want bool
	}{
		{identity: "allocation"}, {identity: "allocation", sure: true}, {identity: "allocation", lost: true, want: true},
		{identity: "job", want: true}, {identity: "job", sure: true}, {identity: "job", sure: true, lost: true, want: true},
	} {
		var recorded dhcp.Lease
		c := dhcpCall(fmt.Sprintf(`, "identity": %q`, test.identity), "ADDRESS_KEY=0", plugin.Lease{
			Namespace: "n", Job: "j", Group: "g",
			Record: func(l dhcp.Lease) error { recorded = l; return nil },
		})
		id, err := identify(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := recorderOf(c, id)(dhcp.Lease{ClientID: id.ClientID, Lost: test.lost}, test.sure); err != nil || recorded.Lost != test.want || recorded.ClientID != id.ClientID {
			t.Errorf("%+v: %+v, %v", test, recorded, err)
		}
	}
}

// TestShared: the identifier of an allocation is its own, and that of a job none of one, whatever it is named.
func TestShared(t *testing.T) {
	for _, id := range []string{"a1", "nomad"} {
		own, shared := dhcpCall("", "", plugin.Lease{}), dhcpCall(`, "identity": "job"`, "ADDRESS_KEY=1", plugin.Lease{Namespace: "prod", Job: "db", Group: "g"})
		own.ContainerID, shared.ContainerID = id, id
		for want, c := range map[bool]*plugin.Call{false: own, true: shared} {
			if got, err := identify(c); err != nil || got.Shared != want {
				t.Errorf("%s: %+v, %v, want %t", id, got, err, want)
			}
		}
	}
}

// TestWanted: an address that the attachment has had is asked for again, unless it was declined.
func TestWanted(t *testing.T) {
	had := dhcp.Lease{Address: netip.MustParsePrefix("10.0.0.5/24"), Lost: true}
	declined := had
	declined.Declined = true
	for want, recorded := range map[string][]dhcp.Lease{"10.0.0.5": {had}, "invalid IP": {declined}} {
		if got := Wanted(dhcpCall("", "", plugin.Lease{Recorded: recorded}).Lease.Of(dhcp.IPv4)); got.String() != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestLongDHCPIdentities fit, and stay different.
func TestLongDHCPIdentities(t *testing.T) {
	seen := map[string]bool{}
	for _, job := range []string{strings.Repeat("j", 300) + "1", strings.Repeat("j", 300) + "2"} {
		got, err := identify(dhcpCall(`, "identity": "job", "hostname": "job"`, "ADDRESS_KEY=1", plugin.Lease{Namespace: "n", Job: job, Group: "g"}))
		if err != nil || len(got.ClientID) > maxClientID || len(got.HostName) != maxLabel || seen[got.ClientID] {
			t.Errorf("%+v, %v", got, err)
		}
		seen[got.ClientID] = true
	}
}

// TestLeaseResult: routes on the link have no gateway, which that of the address would be.
func TestLeaseResult(t *testing.T) {
	gateway := netip.MustParseAddr("10.0.0.1")
	l := dhcp.Lease{Address: netip.MustParsePrefix("10.0.0.5/24"), Gateway: gateway, DNS: []netip.Addr{gateway}, Domain: "a", Search: []string{"b"}, Routes: []dhcp.Route{{To: netip.MustParsePrefix("10.9.0.0/16"), Via: gateway}}}
	text := func(l dhcp.Lease) string {
		r := LeaseResult(l)
		all := fmt.Sprint(r.DNS.Nameservers, r.DNS.Domain, r.DNS.Search)
		for _, a := range r.IPs {
			all += fmt.Sprintf("; %s %s", &a.Address, a.Gateway)
		}
		for _, route := range r.Routes {
			all += fmt.Sprintf("; %s %s", &route.Dst, route.GW)
		}
		return all
	}
	if got, want := text(l), "[10.0.0.1]a[b]; 10.0.0.5/24 10.0.0.1; 0.0.0.0/0 10.0.0.1; 10.9.0.0/16 10.0.0.1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	l.Routes[0].Via = netip.Addr{}
	if got, want := text(l), "[10.0.0.1]a[b]; 10.0.0.5/24 <nil>; 0.0.0.0/0 10.0.0.1; 10.9.0.0/16 <nil>"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if l.Lost = true; text(l) != "[][]" {
		t.Errorf("a lost lease gives %s", text(l))
	}
}

// TestDHCPFamilies: which there are, IPv4 first, and what is no list of them.
func TestDHCPFamilies(t *testing.T) {
	for families, want := range map[string]string{
		`["ipv4"]`: "[ipv4]", `["ipv6"]`: "[ipv6]", `["ipv6", "ipv4"]`: "[ipv4 ipv6]",
		`[]`: "", `["ipv6", "ipv6"]`: "", `["IPv6"]`: "", `["ipv4", "ipv6", ""]`: "",
	} {
		c := dhcpCall(`, "families": `+families, "", plugin.Lease{})
		conf, err := readDHCP(c)
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), `families of dhcp are [`) || !strings.Contains(err.Error(), `want "ipv4", "ipv6" or both`) {
				t.Errorf("%s: %v", families, err)
			}
			continue
		}
		if err != nil || fmt.Sprint(conf.families()) != want {
			t.Errorf("%s: %v, %v, want %s", families, conf, err, want)
		}
	}
}

// TestLeasesOfBoth: what leases of both families give, name servers of both and each search domain once.
func TestLeasesOfBoth(t *testing.T) {
	four := dhcp.Lease{Address: netip.MustParsePrefix("10.0.0.5/24"), Gateway: netip.MustParseAddr("10.0.0.1"), DNS: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Search: []string{"a", "b"}}
	six := dhcp.Lease{Address: netip.MustParsePrefix("2001:db8::5/128"), DNS: []netip.Addr{netip.MustParseAddr("2001:db8::1")}, Search: []string{"b", "c"}}
	r := LeaseResult(four, six)
	if len(r.IPs) != 2 || r.IPs[1].Address.String() != "2001:db8::5/128" || r.IPs[1].Gateway != nil || len(r.Routes) != 1 || fmt.Sprint(r.DNS.Nameservers, r.DNS.Search) != "[10.0.0.1 2001:db8::1] [a b c]" {
		t.Errorf("%+v", r)
	}
	four.Lost = true
	if r := LeaseResult(four, six); len(r.IPs) != 1 || len(r.Routes) != 0 {
		t.Errorf("with one that is lost: %+v", r)
	}
}

// TestDHCPWithoutKeeper: nothing is asked for where nothing would be on record; what has no lease has none to release.
func TestDHCPWithoutKeeper(t *testing.T) {
	c := dhcpCall("", "", plugin.Lease{})
	if _, err := addDHCP(c); err != errNoKeeper { //nolint:errorlint // it is not wrapped
		t.Errorf("got %v", err)
	}
	releaseDHCP(c)
}
