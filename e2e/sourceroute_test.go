// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// multihomed is a host with networks home1, which has the default routes, and home2. Each
// has a router, which has no other link to the networks, and a client behind it.
func multihomed(t *testing.T) *host {
	t.Helper()
	h := newHost(t)
	for i, bridge := range []string{"fixed0", "storage0"} {
		n, extra, option := i+1, `, "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]`, ""
		if n == 2 {
			extra, option = "", `"allocnet": {"routing": "source"}, `
		}
		sandbox.WriteFile(t, fmt.Sprintf("%s/8%d-home%[2]d.conflist", h.conf, n), fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "home%[1]d", %[2]s"plugins": [
			{"type": "bridge", "bridge": %[3]q, "ipam": {"type": "host-local", "dataDir": "/run/home-leases",
			 "ranges": [[{"subnet": "10.98.%[1]d.0/24"}], [{"subnet": "fd00:98:%[1]d::/64"}]]%[4]s}}]}`, n, option, bridge, extra))
		newHome(t, n, bridge)
	}
	t.Cleanup(func() { _ = os.RemoveAll("/run/home-leases") })
	return h
}

// newHome makes the router of a network and the client.
func newHome(t *testing.T, n int, bridge string) {
	t.Helper()
	router, client, port := fmt.Sprint("router", n), fmt.Sprint("client", n), fmt.Sprint("home", n)
	for _, name := range []string{router, client} {
		if _, err := netns.Create(netns.DefaultDir, name); err != nil {
			t.Fatal(err)
		}
		sandbox.Run(t, "ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	}
	t.Cleanup(func() {
		sandbox.Run(t, "ip", "link", "del", port)
		sandbox.Run(t, "ip", "netns", "del", router)
		sandbox.Run(t, "ip", "netns", "del", client)
	})
	run := func(format string, a ...any) {
		t.Helper()
		sandbox.Run(t, strings.Fields(fmt.Sprintf("ip "+format, a...))...)
	}
	run("link add %s type veth peer name inside netns %s", port, router)
	run("link set %s master %s up", port, bridge)
	run("-n %s link add outside type veth peer name eth0 netns %s", router, client)
	for _, address := range []string{fmt.Sprintf("10.98.%d.1/24", n), fmt.Sprintf("fd00:98:%d::1/64", n)} {
		run("-n %s address add %s dev inside", router, address)
	}
	for _, prefix := range []string{fmt.Sprintf("10.99.%d.%%d/24", n), fmt.Sprintf("fd00:99:%d::%%d/64", n)} {
		run("-n %s address add %s dev outside", router, fmt.Sprintf(prefix, 1))
		run("-n %s address add %s dev eth0", client, fmt.Sprintf(prefix, 2))
	}
	run("-n %s link set inside up", router)
	run("-n %s link set outside up", router)
	run("-n %s link set eth0 up", client)
	run("-n %s route add default via 10.99.%d.1", client, n)
	run("-n %s -6 route add default via fd00:99:%d::1", client, n)
}

// answers returns an error unless a client that connects to an address gets the address
// as the answer.
func answers(path string, address string) error {
	var told []byte
	err := within(path, func() error {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(address, "80"), patience)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		told, err = io.ReadAll(conn)
		return err
	})
	if err == nil && string(told) != address {
		err = fmt.Errorf("answered by %q", told)
	}
	return err
}

// TestSourceRouting: a client behind the router of a network reaches the allocation at its
// address there, although the default route is by the other router, which does not know
// the client. `check` misses a rule, and a detach leaves none.
func TestSourceRouting(t *testing.T) {
	h := multihomed(t)
	a := h.attach("mh1", "--primary", "home1", "--networks", "home2")
	tellAddress(t, a.Netns, ":80", net.Conn.LocalAddr)
	for _, n := range a.Attachments {
		client := "/run/netns/client1"
		if n.Network == "home2" {
			client = "/run/netns/client2"
		}
		if len(n.Addresses) != 2 {
			t.Errorf("%s has %v, want an address of each family", n.Interface, n.Addresses)
		}
		for _, address := range n.Addresses {
			if err := answers(client, address.Addr().String()); err != nil {
				t.Errorf("%s, %s: %v", n.Interface, address, err)
			}
		}
	}
	h.must("check", "mh1")
	sandbox.Run(t, "ip", "-n", "mh1", "-6", "rule", "del", "priority", "20000")
	h.refuse(1, []string{"as net1 of allocation mh1", "missing: rule from ", " to table 20000"}, "check", "mh1")
	h.must("detach", "mh1", "--interface", "net1")
	for _, family := range []string{"-4", "-6"} {
		if rules := sandbox.Run(t, "ip", "-n", "mh1", family, "rule"); strings.Contains(rules, "2000") {
			t.Errorf("left are the rules\n%s", rules)
		}
	}
	h.must("detach", "mh1")
}

// TestSourceRoutingPlugin: with the plugin sbr, CHECK of the bridge plugin fails for what
// ADD made. Such a network is refused.
func TestSourceRoutingPlugin(t *testing.T) {
	h := newHost(t)
	const text = `{"cniVersion": "1.0.0", "name": "moved", "plugins": [
		{"type": "bridge", "bridge": "storage0", "ipam": {"type": "host-local", "dataDir": "/run/moved-leases", "subnet": "10.98.3.0/24"}}, {"type": "sbr"}]}`
	sandbox.WriteFile(t, h.conf+"/83-moved.conflist", text)
	defer os.RemoveAll("/run/moved-leases")
	h.refuse(2, []string{"moved", "CHECK of plugin bridge", `"allocnet": {"routing": "source"}`}, "attach", "mh2", "--primary", "moved")
	list, err := libcni.NetworkConfFromBytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	path, err := netns.Create(netns.DefaultDir, "moved")
	if err != nil {
		t.Fatal(err)
	}
	defer netns.Remove(path)
	plain := libcni.NewCNIConfig([]string{sandbox.PluginDir()}, nil)
	c := &libcni.RuntimeConf{ContainerID: "moved", NetNS: path, IfName: "eth0"}
	if _, err := plain.AddNetworkList(context.Background(), list, c); err != nil {
		t.Fatal(err)
	}
	if err := plain.CheckNetworkList(context.Background(), list, c); err == nil || !strings.Contains(err.Error(), "Failed to find Gateway") {
		t.Errorf("CHECK of the plugins: %v: there is nothing to refuse", err)
	}
	if err := plain.DelNetworkList(context.Background(), list, c); err != nil {
		t.Error(err)
	}
	sandbox.WriteFile(t, h.conf+"/83-moved.conflist", strings.Replace(text, `"plugins"`, `"disableCheck": true, "plugins"`, 1))
	h.attach("mh2", "--primary", "moved")
	h.must("check", "mh2")
	h.must("detach", "mh2")
}
