// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/forwarding"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/span/packetfilter"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// filteredPool is the pool as the filters have to know it.
func filteredPool(t testing.TB) *ipam.Config {
	t.Helper()
	c, err := ipam.Parse([]byte(`{"pool": "net", "mode": "auto", "ranges": [{"subnet": "10.60.0.0/16", "gateway": "10.60.0.1"}, {"subnet": "fd60::/112", "gateway": "fd60::1"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sh runs a script in the host's namespace.
func (h *host) sh(t testing.TB, script string) string {
	t.Helper()
	out, err := exec.Command("ip", "netns", "exec", h.name, "sh", "-euc", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %s: %v: %s", h.name, script, err, out)
	}
	return string(out)
}

// obstacles returns what of the host certainly drops packets of the pool.
func (h *host) obstacles(t testing.TB) (all []forwarding.Obstacle) {
	t.Helper()
	h.do(t, func() error {
		all = forwarding.Collect(t.Context(), h.endpoint.Address, true).Obstacles([]*ipam.Config{filteredPool(t)})
		return nil
	})
	return slices.DeleteFunc(all, func(o forwarding.Obstacle) bool { return o.IsWarning })
}

// filter makes the host's filters those of the pools, and returns whether that changed something.
func (h *host) filter(t testing.TB, pools ...*ipam.Config) (changed bool) {
	t.Helper()
	h.do(t, func() (err error) {
		facts := forwarding.Collect(t.Context(), h.endpoint.Address, true)
		changed, err = packetfilter.New(packetfilter.Options{Dir: h.dir}).Keep(t.Context(), packetfilter.Found{Facts: facts, Listings: facts.Listings}, packetfilter.Goal{Pools: pools})
		return err
	})
	return changed
}

// volatile is what iptables-save prints that is not part of the rules.
var volatile = regexp.MustCompile(`(?m)^#.*\n|\[\d+:\d+\]`)

// iptables returns the rules of all places.
func (h *host) iptables(t testing.TB) string {
	t.Helper()
	return volatile.ReplaceAllString(h.sh(t, "iptables-nft-save; ip6tables-nft-save; cat /proc/net/ip_tables_names; iptables-legacy-save; ip6tables-legacy-save; nft list ruleset inet"), "")
}

// drop makes the filters of the host drop what it forwards, as Docker does.
func (h *host) drop(t testing.TB, backend string) {
	t.Helper()
	for _, program := range []string{"iptables-" + backend, "ip6tables-" + backend} {
		h.sh(t, fmt.Sprintf("%[1]s -P FORWARD DROP; %[1]s -N DOCKER-USER; %[1]s -A DOCKER-USER -j RETURN; %[1]s -A FORWARD -j DOCKER-USER; %[1]s -A FORWARD -o docker0 -j DROP", program))
	}
}

// TestFilter: with the policy DROP no packet passes, and with rules for the pool all do, but none of
// them from elsewhere. Without the pool the rules are as they were.
func TestFilter(t *testing.T) {
	for _, backend := range []string{"nft", "legacy"} {
		t.Run(backend, func(t *testing.T) {
			p, hosts := pool(ipam.ModeAuto), newHosts(t, 3)
			tables := states(t, hosts)
			join(t, p, hosts)
			requireTraffic(t, hosts, 1000)
			var before []string
			for _, h := range hosts {
				h.drop(t, backend)
				before = append(before, h.iptables(t))
			}
			for _, address := range []string{hosts[1].addresses[0], hosts[2].addresses[1]} { // routed, and VXLAN
				if send(hosts[0], address, 1000) == nil {
					t.Errorf("a packet to %s passes a policy DROP", address)
				}
			}
			for _, h := range hosts {
				if found := h.obstacles(t); len(found) != 2 {
					t.Errorf("%s: %+v, want a policy for each family", h.name, found)
				}
				if !h.filter(t, filteredPool(t)) || h.filter(t, filteredPool(t)) {
					t.Errorf("%s: want changes the first time, and none the second time\n%s", h.name, h.iptables(t))
				}
				if left := h.obstacles(t); len(left) != 0 {
					t.Errorf("%s: with the rules there are %+v\n%s", h.name, left, h.iptables(t))
				}
			}
			requireTraffic(t, hosts, 1000)
			requireForgedDropped(t, hosts, backend)
			for i, h := range hosts {
				if h.filter(t); h.iptables(t) != before[i] {
					t.Errorf("%s, without the pool:\n%s\nbefore:\n%s", h.name, h.iptables(t), before[i])
				}
			}
			leave(t, hosts, tables)
		})
	}
}

// TestFilterIncompatible: a table that iptables-save cannot show, because of a rule that was made with nft, is said to be
// one. What drops packets in it is found nevertheless, and rules that cannot be removed are not forgotten.
func TestFilterIncompatible(t *testing.T) {
	h := newHosts(t, 1)[0]
	h.drop(t, "nft")
	h.filter(t, filteredPool(t))
	keeper := packetfilter.New(packetfilter.Options{Dir: h.dir})
	h.sh(t, "nft add rule ip filter FORWARD fib daddr type local drop; iptables-nft-save | grep -q incompatible")
	h.do(t, func() error {
		facts := forwarding.Collect(t.Context(), h.endpoint.Address, true)
		if len(facts.Unread) != 1 || !strings.Contains(facts.Unread[0].Error(), "iptables-nft-save cannot show the table filter") {
			t.Errorf("unread: %v", facts.Unread)
		}
		if err := keeper.Remove(t.Context(), nil); err == nil || !keeper.HasRecord() {
			t.Errorf("removed: %v, a record: %v", err, keeper.HasRecord())
		}
		return nil
	})
	h.sh(t, "nft flush chain ip filter ALLOCNET-FORWARD")
	if found := h.obstacles(t); len(found) != 2 || found[0].Subject != "nft table ip filter" {
		t.Errorf("%+v", found)
	}
	h.sh(t, "nft flush chain ip filter FORWARD")
	h.do(t, func() error { return keeper.Remove(t.Context(), nil) })
	if left := h.iptables(t); keeper.HasRecord() || strings.Contains(left, "ALLOCNET") {
		t.Errorf("a record: %v, left:\n%s", keeper.HasRecord(), left)
	}
}

// requireForgedDropped: a packet with addresses of the pool that comes from an interface which is not the
// pool's reaches no allocation, neither of this host nor of another one. Without a policy it does.
func requireForgedDropped(t *testing.T, hosts []*host, backend string) {
	t.Helper()
	a := hosts[0]
	outside := namespace(t, "outside")
	ip(t, "-n a link add lan0 type veth peer name lan0 netns outside")
	address(t, "a", "lan0", "192.0.2.1/24", "fd92::1/64")
	address(t, "outside", "lan0", "192.0.2.2/24", "fd92::2/64", "10.60.9.9/32", "fd60::909/128")
	ip(t, "-n outside route add default via 192.0.2.1")
	ip(t, "-n outside route add default via fd92::1")
	a.sh(t, "sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.lan0.rp_filter=0")
	hosts[1].sh(t, "sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.eth0.rp_filter=0")
	forged := []string{"10.60.9.9", "fd60::909"}
	for _, to := range []*host{a, hosts[1]} {
		for i, source := range forged {
			if got := received(t, outside, source, to, to.addresses[i], hosts[2]); got != "" {
				t.Errorf("a forged packet reaches the allocation %s of %s", to.addresses[i], to.name)
			}
		}
	}
	for _, program := range []string{"iptables-" + backend, "ip6tables-" + backend} {
		a.sh(t, program+" -P FORWARD ACCEPT")
	}
	if received(t, outside, forged[0], a, a.addresses[0], hosts[2]) != "forged" {
		t.Error("the forged packet is lost without a policy, too")
	}
	for _, program := range []string{"iptables-" + backend, "ip6tables-" + backend} {
		a.sh(t, program+" -P FORWARD DROP")
	}
	ip(t, "-n a link del lan0")
}

// received sends a packet from a source outside to an allocation, and then one of another allocation, until
// that one comes. It returns what came before.
func received(t *testing.T, outside *netns.Namespace, source string, to *host, destination string, other *host) (before string) {
	t.Helper()
	var listener net.PacketConn
	if err := to.inside.Do(func() (err error) {
		listener, err = net.ListenPacket("udp", net.JoinHostPort(destination, "9"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	write := func(from *netns.Namespace, local, text string) {
		if err := from.Do(func() error {
			d := net.Dialer{}
			if local != "" {
				d.LocalAddr = &net.UDPAddr{IP: net.ParseIP(local)}
			}
			c, err := d.Dial("udp", net.JoinHostPort(destination, "9"))
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Write([]byte(text))
			return err
		}); err != nil {
			t.Fatalf("%s to %s: %v", text, destination, err)
		}
	}
	// The neighbours on the way are known after the first one.
	for range 3 {
		write(outside, source, "forged")
	}
	buffer := make([]byte, 100)
	for {
		write(other.inside, "", "right")
		_ = listener.SetReadDeadline(time.Now().Add(lost))
		n, _, err := listener.ReadFrom(buffer)
		if err != nil {
			t.Fatalf("%s gets no packet of %s: %v", destination, other.name, err)
		}
		if string(buffer[:n]) == "right" {
			return before
		}
		before = string(buffer[:n])
	}
}

// TestWatch: what others change beside our rules is heard of.
func TestWatch(t *testing.T) {
	h := newHosts(t, 1)[0]
	for _, repeatable := range []string{
		"iptables-nft -A FORWARD -j ACCEPT",
		"iptables-nft -A FORWARD -j DROP; iptables-nft -F FORWARD",
		"ip6tables-nft -P FORWARD DROP",
		"nft add table inet firewalld; nft delete table inet firewalld",
		"nft add table inet own; nft 'add chain inet own forwarded { type filter hook forward priority 0; policy drop; }'; nft delete table inet own",
	} {
		ctx, stop := context.WithCancel(t.Context())
		changed, ended := make(chan struct{}, 1), make(chan error, 1)
		go func() {
			ended <- h.ns.Do(func() error {
				return packetfilter.Watch(ctx, func() {
					select {
					case changed <- struct{}{}:
					default:
					}
				})
			})
		}()
		sandbox.Eventually(t, "it is heard of: "+repeatable, func() bool {
			h.sh(t, repeatable)
			return len(changed) > 0
		})
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
