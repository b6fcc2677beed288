// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package portmap

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootGuardLoopback: the guard is made once, made again where it is missing, and is what nft prints.
func TestRootGuardLoopback(t *testing.T) {
	roottest.Require(t)
	for _, damage := range []string{"list ruleset", "flush chain ip allocnet_loopback prerouting", "flush ruleset"} {
		if out, err := exec.Command("nft", strings.Fields(damage)...).CombinedOutput(); err != nil {
			t.Fatalf("nft %s: %v: %s", damage, err, out)
		}
		for range 2 {
			if err := GuardLoopback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.Command("nft", "list", "chain", "ip", "allocnet_loopback", "prerouting").Output()
		rules := `iifname != "lo" ip daddr 127.0.0.0/8 ip saddr 127.0.0.0/8 fib saddr . iif oif exists return
		iifname != "lo" ip daddr 127.0.0.0/8 fib daddr . iif type != local drop`
		if err != nil || strings.Count(string(out), rules) != 1 || strings.Count(string(out), "iifname") != 2 || !strings.Contains(string(out), "type filter hook prerouting priority raw") {
			t.Errorf("after nft %s: %v\n%s", damage, err, out)
		}
	}
}

// loopbackLinks makes two hosts on links of this host's own with addresses of 127.0.0.0/8, and a task on another link, which
// routes all of that to the host and claims an address of the first link, too.
const loopbackLinks = `
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
for n in card1 card2 task; do
	ip netns add $n
	ip link add $n type veth peer name eth0 netns $n
	ip link set $n up; ip -n $n link set lo up; ip -n $n addr del 127.0.0.1/8 dev lo; ip -n $n link set eth0 up
	ip netns exec $n sysctl -qw net.ipv4.conf.eth0.route_localnet=1
	sysctl -qw net.ipv4.conf.$n.route_localnet=1
done
for i in 1 2; do
	ip addr add 127.$i.0.1/16 dev card$i; ip -n card$i addr add 127.$i.0.2/16 dev eth0
done
ip -n card1 route add 127.2.0.0/16 via 127.1.0.1 src 127.1.0.2
ip addr add 10.0.0.1/24 dev task; ip -n task addr add 10.0.0.2/24 dev eth0; ip -n task route add 127.0.0.0/8 via 10.0.0.1`

// TestRootLoopbackLinks: the guard keeps a task from all of 127.0.0.0/8, and leaves what the host's operator uses of it on
// links of their own.
func TestRootLoopbackLinks(t *testing.T) {
	roottest.Require(t)
	runScript(t, loopbackLinks)
	defer runScript(t, "for n in card1 card2 task; do ip netns del $n; done")
	host := listenUDP(t, "")
	card := listenUDP(t, "card2")
	for _, test := range []struct {
		from, route, to string
		listener        *net.UDPConn
		guarded         bool
	}{
		{"card1", "", "127.1.0.1", host, false},
		{"card1", "", "127.2.0.2", card, false},
		{"card1", "src 192.0.2.9", "127.1.0.1", host, false},
		{"task", "", "127.0.0.1", host, true},
		{"task", "", "127.1.0.1", host, true},
		{"task", "", "127.2.0.2", card, true},
		{"task", "src 127.1.0.2", "127.0.0.1", host, true},
		{"task", "src 127.1.0.2", "127.1.0.1", host, true},
		{"task", "src 127.1.0.2", "127.2.0.2", card, true},
	} {
		if source, ok := strings.CutPrefix(test.route, "src "); ok {
			runScript(t, fmt.Sprintf("ip -n %s addr replace %s/32 dev lo; ip -n %[1]s route replace %[3]s/32 %[4]s dev eth0 %[5]s", test.from, source, test.to,
				map[string]string{"card1": "", "task": "via 10.0.0.1"}[test.from], test.route))
		}
		for _, guarded := range []bool{false, true} {
			runScript(t, "nft flush ruleset")
			if guarded {
				if err := GuardLoopback(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			runScript(t, fmt.Sprintf("ip netns exec %s bash -c 'echo x >/dev/udp/%s/99'", test.from, test.to))
			_ = test.listener.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			_, err := test.listener.Read(make([]byte, 8))
			if reached := err == nil; reached == (guarded && test.guarded) {
				t.Errorf("%+v, with the guard: %t: reached: %t", test, guarded, reached)
			}
		}
	}
}

// listenUDP listens at port 99 of a network namespace; empty: of the host.
func listenUDP(t *testing.T, name string) *net.UDPConn {
	t.Helper()
	var conn *net.UDPConn
	listen := func() (err error) {
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{Port: 99})
		return err
	}
	if name != "" {
		ns, err := netns.Open("/run/netns/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer ns.Close()
		listenHere := listen
		listen = func() error { return ns.Do(listenHere) }
	}
	if err := listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func runScript(t *testing.T, script string) {
	t.Helper()
	if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestRoutesLocalnet: only connections by the host's IPv4, with addresses translated, need it.
func TestRoutesLocalnet(t *testing.T) {
	no, yes := false, true
	v4, v6 := net.IPNet{IP: net.IPv4(10, 0, 0, 2)}, net.IPNet{IP: net.ParseIP("fd00::2")}
	for _, test := range []struct {
		snat      *bool
		addresses []net.IPNet
		want      bool
	}{
		{nil, []net.IPNet{v4}, true}, {&yes, []net.IPNet{v6, v4}, true}, {&no, []net.IPNet{v4}, false}, {nil, []net.IPNet{v6}, false}, {nil, nil, false},
	} {
		conf := &config{SNAT: test.snat, addresses: test.addresses}
		if got := conf.routesLocalnet(); got != test.want && supportsGuard() {
			t.Errorf("%+v: %t", test, got)
		}
	}
}

// TestRouteLocalnetOfAll: the kernel takes the value of all links or that of the link.
func TestRouteLocalnetOfAll(t *testing.T) {
	for value, want := range map[string]bool{"1": true, "0": false, "": false} {
		got := routesAllLocalnet(func(key string) (string, error) {
			if value == "" || key != "net/ipv4/conf/all/route_localnet" {
				return "", errors.New(key)
			}
			return value, nil
		})
		if got != want {
			t.Errorf("with %q: %t", value, got)
		}
	}
}
