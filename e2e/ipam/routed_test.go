// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// otherHost is the namespace that is the second host.
const otherHost = "otherhost"

// TestLongRouted: allocations on two hosts of a routed pool reach each other from their own
// addresses, whichever of the reference plugins and executors attached them, although they are
// masqueraded elsewhere. So do those of several blocks on one host.
func TestLongRouted(t *testing.T) {
	connectHosts(t)
	defaults := map[string]any{"routes": []any{map[string]any{"dst": "0.0.0.0/0"}, map[string]any{"dst": "::/0"}}}
	for name, test := range map[string]struct{ plugin, pool map[string]any }{
		"ptp":                    {map[string]any{"type": "ptp"}, defaults},
		"bridge":                 {map[string]any{"type": "bridge", "bridge": "routed0", "isGateway": true}, defaults},
		"bridge nftables":        {map[string]any{"type": "bridge", "bridge": "routed0", "isGateway": true, "ipMasqBackend": "nftables"}, defaults},
		"bridge default gateway": {map[string]any{"type": "bridge", "bridge": "routed0", "isDefaultGateway": true}, nil},
	} {
		for _, executor := range []string{hook.ExecutorAuto, hook.ExecutorPlugins} {
			t.Run(name+" "+executor, func(t *testing.T) {
				plugin := maps.Clone(test.plugin)
				plugin["ipMasq"] = true
				requireReachable(t, executor, plugin, test.pool)
			})
		}
	}
}

// connectHosts makes the second host, and the routes of both. The link between them takes
// smaller packets than allocations send, which have to learn that.
func connectHosts(t *testing.T) {
	t.Helper()
	namespace(t, otherHost)
	t.Cleanup(func() { sandbox.Run(t, "ip", "link", "delete", "under0") })
	for _, command := range []string{
		"link add under0 mtu 1400 type veth peer name under1 mtu 1400 netns otherhost", "link set under0 up", "-n otherhost link set under1 up", "-n otherhost link set lo up",
		"addr add 172.30.0.1/24 dev under0", "addr add fd30::1/64 dev under0 nodad",
		"-n otherhost addr add 172.30.0.2/24 dev under1", "-n otherhost addr add fd30::2/64 dev under1 nodad",
		"route add 10.70.0.128/25 via 172.30.0.2", "route add fd70:0:0:0:8000::/65 via fd30::2",
		"-n otherhost route add 10.70.0.0/25 via 172.30.0.1", "-n otherhost route add fd70:0:0:0:4000::/66 via fd30::1",
	} {
		sandbox.Run(t, append([]string{"ip"}, strings.Fields(command)...)...)
	}
	answerWithClient(t, otherHost)
}

// routedHost returns a host with a part of the pool. Each has a store of its own, so that no
// agent makes the routes.
func routedHost(t *testing.T, executor, namespace string, plugin, keys map[string]any, ranges ...any) *host {
	t.Helper()
	all := map[string]any{"mode": "routed", "ranges": ranges, "blockSize": map[string]any{"4": 31, "6": 127}}
	maps.Copy(all, keys)
	h := &host{pool: newPool(t, all), conf: t.TempDir(), records: t.TempDir(), executor: executor, namespace: namespace}
	sandbox.WriteFile(t, h.conf+"/net.conflist", h.network("1.1.0", "net", plugin))
	return h
}

// partOf is a range of a subnet.
func partOf(subnet, first, last string) map[string]any {
	return map[string]any{"subnet": subnet, "rangeStart": first, "rangeEnd": last}
}

func requireReachable(t *testing.T, executor string, plugin, keys map[string]any) {
	one := routedHost(t, executor, "", plugin, keys,
		partOf("10.70.0.0/24", "10.70.0.64", "10.70.0.127"), partOf("fd70::/64", "fd70:0:0:0:4000::", "fd70::7fff:ffff:ffff:ffff"))
	two := routedHost(t, executor, otherHost, plugin, keys,
		partOf("10.70.0.0/24", "10.70.0.128", "10.70.0.191"), partOf("fd70::/64", "fd70:0:0:0:8000::", "fd70::ffff:ffff:ffff:ffff"))
	addresses := map[string][]netip.Prefix{}
	hosts := map[string]*host{"r1": one, "r2": one, "r3": one, "r4": two, "r5": two}
	attachAll(t, hosts)
	for id, h := range hosts {
		addresses[id] = h.attach(id, "--networks", "net").Attachments[0].Addresses // it has been attached
		defer h.must("detach", id)
		h.must("check", id)
		answerWithClient(t, id)
	}
	blocks := map[netip.Prefix]bool{}
	for _, id := range []string{"r1", "r2", "r3"} {
		blocks[netip.PrefixFrom(addresses[id][0].Addr(), 31).Masked()] = true
	}
	if len(blocks) < 2 {
		t.Errorf("three allocations are in the blocks %v, want several", blocks)
	}
	for from, own := range addresses {
		for to, others := range addresses {
			for i := range others {
				if from != to {
					requireClient(t, from, others[i].Addr(), own[i].Addr().String())
				}
			}
		}
	}
	requireClient(t, "r1", netip.MustParseAddr("172.30.0.2"), "172.30.0.1")
	requireClient(t, "r1", netip.MustParseAddr("fd30::2"), "fd30::1")
}

// attachAll attaches at once: ptp waits a second until an IPv6 address is known to be its own.
func attachAll(t *testing.T, hosts map[string]*host) {
	t.Helper()
	var group errgroup.Group
	for id, h := range hosts {
		group.Go(func() error {
			out, err := h.allocnet("attach", id, "--primary=", "--networks", "net")
			if err != nil {
				return fmt.Errorf("attach %s: %w: %s", id, err, out)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// message is larger than what TCP sends at once.
var message = make([]byte, 64<<10)

// requireClient connects from a namespace, sends a message, and requires that the server sees an
// address. A message comes back behind it.
func requireClient(t *testing.T, from string, to netip.Addr, want string) {
	t.Helper()
	var told []byte
	err := within(from, func() error {
		conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(to, 80).String(), 5*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := conn.Write(message); err != nil {
			return err
		}
		told, err = io.ReadAll(conn)
		return err
	})
	client, ok := bytes.CutSuffix(told, message)
	if err != nil || !ok || string(client) != want {
		t.Errorf("from %s to %s: the server sees %.50q, %v, and %d bytes come back, want %s and a message", from, to, client, err, len(told), want)
	}
}

// answerWithClient accepts connections in a namespace. It reads a message from each, and writes
// the client's address and a message.
func answerWithClient(t *testing.T, name string) {
	t.Helper()
	var listener net.Listener
	err := within(name, func() (err error) {
		listener, err = net.Listen("tcp", ":80")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if _, err := io.ReadFull(conn, make([]byte, len(message))); err == nil {
				_, _ = fmt.Fprint(conn, conn.RemoteAddr().(*net.TCPAddr).IP)
				_, _ = conn.Write(message)
			}
			_ = conn.Close()
		}
	}()
}

func within(name string, do func() error) error {
	ns, err := netns.Open("/run/netns/" + name)
	if err != nil {
		return err
	}
	defer ns.Close()
	return ns.Do(do)
}

// TestRoutedDefaultRoute: allocnet can add default routes via the gateway of a routed pool, to
// the main table and to an interface's own, although the pool's routes are via the same gateway.
func TestRoutedDefaultRoute(t *testing.T) {
	gateway := map[string]any{"type": "bridge", "bridge": "routed1", "isGateway": true}
	h := routedHost(t, hook.ExecutorAuto, "", gateway, nil, map[string]any{"subnet": "10.71.0.0/24"}, map[string]any{"subnet": "fd71::/64"})
	network := strings.Replace(h.network("1.1.0", "net", gateway), `"plugins"`, `"allocnet": {"routing": "source"}, "plugins"`, 1)
	sandbox.WriteFile(t, h.conf+"/net.conflist", network)
	h.must("attach", "d1", "--primary=", "--networks", `[{"name": "net", "default-route": []}]`)
	defer h.must("detach", "d1")
	h.must("check", "d1")
	for family, want := range map[string]string{"-4": "10.71.0.1", "-6": "fd71::1"} {
		routes := sandbox.Run(t, "ip", "-n", "d1", family, "route", "show", "table", "all")
		if strings.Count(routes, "default via "+want+" ") != 2 {
			t.Errorf("the routes are\n%s\nwant a default route via %s in two tables", routes, want)
		}
	}
}
