// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// TestLongIPv6Nodes: nodes whose agents have IPv6 addresses for them reach each other on all networks, also
// behind the router, and do so again at their IPv4 addresses.
func TestLongIPv6Nodes(t *testing.T) {
	s := begin(t)
	addresses := []string{"fd31::11", "fd31::12", "fd31:1::13"}
	routers := []string{"fd31::fe", "fd31::fe", "fd31:1::fe"}
	s.router("sysctl -qw net.ipv6.conf.all.forwarding=1", "ip address add fd31::fe/64 dev mgmt nodad", "ip address add fd31:1::fe/64 dev mgmt-beyond nodad")
	s.during("the nodes get IPv6 addresses", func() {
		for i, m := range lab.Clients {
			s.run(m, "ip address add "+addresses[i]+"/64 dev mgmt nodad; ip -6 route add default via "+routers[i])
			s.configure(m, fmt.Sprintf("cluster {\n address = %q\n node_networks = [\"fd31::/16\"]\n}\n", addresses[i]))
		}
		for _, m := range lab.Clients {
			must(t, cluster.Await(m.Name+" has routes to IPv6 addresses", func() error { return s.requireUnderlay(m, true) }))
		}
	})
	s.requireAll()
	s.requireNarrow()
	s.during("the nodes get back their IPv4 addresses", func() {
		for _, m := range lab.Clients {
			s.configure(m, "")
		}
		for _, m := range lab.Clients {
			must(t, cluster.Await(m.Name+" has routes to IPv4 addresses", func() error { return s.requireUnderlay(m, false) }))
		}
	})
	s.requireAll()
}

// requireNarrow: a smaller MTU behind the router is found. The kernels use for forwarded packets of IPv4
// what they find if they are told to.
func (s *scene) requireNarrow() {
	s.Helper()
	narrow := func(use, mtu string) {
		for _, m := range lab.Clients {
			s.run(m, "sysctl -qw net.ipv4.ip_forward_use_pmtu="+use)
		}
		s.router("ip link set mgmt-beyond mtu " + mtu)
	}
	narrow("1", "1400")
	defer narrow("0", "1500")
	for _, from := range []peer{s.on(0), s.on(2)} {
		must(s, from.reach([]peer{s.on(0), s.on(2)}))
	}
}

// router runs commands on the router, which is the sandbox.
func (s *scene) router(commands ...string) {
	s.Helper()
	for _, command := range commands {
		words := strings.Fields(command)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			s.Fatalf("%s: %v: %s", command, err, out)
		}
	}
}

// configure gives an agent further configuration.
func (s *scene) configure(m *cluster.Machine, more string) {
	s.Helper()
	must(s, lab.Configure(m, more))
	must(s, m.Signal(cluster.Agent, unix.SIGHUP))
}

// requireUnderlay is an error unless a client has installed the routes to all other clients that it
// should have, at addresses of the family.
func (s *scene) requireUnderlay(m *cluster.Machine, six bool) error {
	if err := s.complete(m); err != nil {
		return err
	}
	status, err := askStatus(m)
	if err != nil {
		return err
	}
	for _, pool := range status.Pools {
		for _, n := range pool.Nodes {
			if a, err := netip.ParseAddr(n.Address); err != nil || a.Is6() != six {
				return fmt.Errorf("%s, %s: %s is at %s", m.Name, pool.Pool, n.Name, n.Address)
			}
		}
	}
	return nil
}
