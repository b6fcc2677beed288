// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package lease

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/internal/dhcp/client"
	"github.com/allocnet/allocnet/state"
)

// ipv6 is a conversation with servers of DHCPv6 that refuse the address of ADD, and give another one, or none.
type ipv6 struct {
	client.Servers
	*world
	silent bool
}

func (c ipv6) Renew(context.Context, dhcp.Lease) (dhcp.Lease, error) {
	c.asked = append(c.asked, "renew IPv6")
	return dhcp.Lease{}, client.ErrRefused
}

func (c ipv6) Acquire(_ context.Context, wanted netip.Addr, _ func(dhcp.Lease) error) (dhcp.Lease, error) {
	c.asked = append(c.asked, "acquire "+wanted.String())
	if c.silent {
		return dhcp.Lease{}, silence
	}
	l := leaseIPv6("2001:db8::77", "2001:db8::54")
	l.Clock = dhcp.Span(c.time)
	return l, nil
}

func (ipv6) Close() {}

func leaseIPv6(address, dns string) dhcp.Lease {
	l := first()
	l.Gateway, l.Server, l.ServerID = netip.Addr{}, netip.MustParseAddr("fe80::9"), "0004"
	l.Address, l.DNS = netip.PrefixFrom(netip.MustParseAddr(address), 128), []netip.Addr{netip.MustParseAddr(dns)}
	return l
}

// newDualWorld is a world whose attachment has leases of both families.
func newDualWorld(t *testing.T) *world {
	w := newWorld(t)
	a, four, six := w.read(), first(), leaseIPv6("2001:db8::5", "2001:db8::53")
	four.DNS = []netip.Addr{netip.MustParseAddr("10.0.0.53")}
	four.Renewal, four.Rebinding, four.Lifetime = dhcp.Span(5*time.Hour), dhcp.Span(6*time.Hour), dhcp.Span(7*time.Hour)
	a.DHCP, a.DHCPv6 = &four, &six
	a.Result = json.RawMessage(strings.Replace(string(a.Result), `"interface":0}]`, `"interface":0}, {"address": "2001:db8::5/128", "interface": 0}], "dns": {"nameservers": ["10.0.0.53", "2001:db8::53"]}`, 1))
	w.record(a)
	return w
}

// TestFamilies: what a server does to the lease of one family changes nothing of the other: neither address, default route nor DNS.
func TestFamilies(t *testing.T) {
	for _, silent := range []bool{false, true} {
		w := newDualWorld(t)
		k := newKeeper(w.env(nil))
		k.now = func() time.Duration { return w.time }
		k.open = func(_ context.Context, _ kernel.Namespace, _ string, f dhcp.Family, of client.Identity) (client.Servers, error) {
			if f != dhcp.IPv6 || of.ClientID != "a/lan/net0" {
				return nil, errors.New("a lease that is not due")
			}
			return ipv6{world: w, silent: silent}, nil
		}
		var entered []dhcp.Lease
		k.enter = func(_ kernel.Namespace, _ string, l dhcp.Lease) error {
			if recorded := w.read().DHCPv6; !recorded.SameAs(l) || recorded.Former == nil {
				t.Errorf("on record is %+v when the namespace gets %+v", recorded, l)
			}
			entered = append(entered, l)
			return nil
		}
		if got := w.round(k, 30*time.Minute); got != "renew IPv6 acquire 2001:db8::5" {
			t.Errorf("asked: %s", got)
		}
		a := w.read()
		requireResult(t, a, silent)
		if len(entered) != 1 || entered[0].Family() != dhcp.IPv6 || a.DHCP.Address != first().Address || a.DHCPv6.Lost != silent || a.DHCPv6.Former != nil {
			t.Errorf("entered %+v, on record are %+v and %+v", entered, a.DHCP, a.DHCPv6)
		}
		if len(w.observed) != 1 || strings.HasPrefix(w.observed[0], "lease done") == silent {
			t.Errorf("observed: %q", w.observed)
		}
	}
}

func requireResult(t *testing.T, a state.Attachment, lost bool) {
	t.Helper()
	result, err := onrecord.ParseResult(a.Result)
	if err != nil {
		t.Fatal(err)
	}
	addresses, servers := "10.0.0.5/24 2001:db8::77/128", "10.0.0.53 2001:db8::54"
	if lost {
		addresses, servers = "10.0.0.5/24", "10.0.0.53"
	}
	var got []string
	for _, p := range onrecord.InterfaceAddresses(result, "net0") {
		got = append(got, p.String())
	}
	if strings.Join(got, " ") != addresses || strings.Join(result.DNS.Nameservers, " ") != servers {
		t.Errorf("lost %t: addresses %q, DNS %q", lost, got, result.DNS.Nameservers)
	}
	if len(result.Routes) != 2 || !isDefault(result.Routes[0]) {
		t.Errorf("lost %t: routes %v", lost, result.Routes)
	}
}
