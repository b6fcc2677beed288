// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package acd

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/acd"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// neighbours returns what a namespace knows of the hosts of the link of an interface.
func neighbours(t *testing.T, name, iface string) string {
	t.Helper()
	out, err := exec.Command("ip", "-n", name, "neighbour", "show", "dev", iface).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// TestAnnounce: a neighbour that knows another MAC of an address learns the new one, and of addresses that the interface does not have,
// or that it still searches for duplicates, nothing is told. The interface may have known another host of an address, and knows none of it after that.
func TestAnnounce(t *testing.T) {
	path, peer := newLink(t)
	own := filepath.Base(path)
	const stale = "02:00:00:00:00:99"
	for _, line := range []string{
		"-n " + own + " link set probe address 02:00:00:00:00:01",
		"-n " + own + " address add 10.9.0.5/24 dev probe", "-n " + own + " address add 10.9.0.7/24 dev probe", "-n " + own + " address add fd09::5/64 dev probe nodad",
		"netns exec " + own + " sysctl -qw net.ipv6.conf.probe.dad_transmits=10000", "-n " + own + " address add fd09::6/64 dev probe",
		"-n " + own + " neighbour replace 10.9.0.5 lladdr 02:00:00:00:00:98 nud reachable dev probe",
		"-n " + peer + " address add 10.9.0.1/24 dev peer", "-n " + peer + " address add fd09::1/64 dev peer nodad",
	} {
		ip(t, line)
	}
	addresses := []string{"10.9.0.5", "10.9.0.7", "fd09::5", "10.9.0.6", "fd09::6"}
	for _, address := range addresses {
		ip(t, "-n "+peer+" neighbour replace "+address+" lladdr "+stale+" nud stale dev peer")
	}
	ns, err := netns.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	var all []netip.Addr
	for _, address := range addresses {
		all = append(all, netip.MustParseAddr(address))
	}
	if err := ns.Do(func() error { return acd.Announce("probe", all) }); err != nil {
		t.Fatal(err)
	}
	sandbox.Eventually(t, "the neighbour knows the new MAC of all three addresses", func() bool {
		return strings.Count(neighbours(t, peer, "peer"), "02:00:00:00:00:01") == 3
	})
	if known := neighbours(t, peer, "peer"); strings.Count(known, stale) != 2 {
		t.Errorf("of addresses that the interface does not have, or not yet: %s", known)
	}
	if left := neighbours(t, own, "probe"); strings.Contains(left, "10.9.0.5") {
		t.Errorf("the interface asks for its own address: %s", left)
	}
}

// TestAnnounceWithinNetwork: a neighbour learns the new MAC of an address that is in the network of another one of the interface, as a published address is in that of the
// host.
func TestAnnounceWithinNetwork(t *testing.T) {
	announced(t, "-n %s address add 10.9.0.2/24 dev probe")
}

// TestAnnounceForProgram: so does it where the kernel leaves it to a program to ask for addresses.
func TestAnnounceForProgram(t *testing.T) {
	announced(t, "netns exec %s sysctl -qw net.ipv4.neigh.probe.app_solicit=1")
}

// TestAnnounceUnasked: so does it where the kernel asks for none.
func TestAnnounceUnasked(t *testing.T) {
	announced(t, "netns exec %s sysctl -qw net.ipv4.neigh.probe.mcast_solicit=0")
}

// announced requires that a neighbour learns the new MAC of an address of a namespace that a command with its name has changed.
func announced(t *testing.T, command string) {
	t.Helper()
	path, peer := newLink(t)
	own := filepath.Base(path)
	for _, line := range []string{
		"-n " + own + " link set probe address 02:00:00:00:00:01", fmt.Sprintf(command, own), "-n " + own + " address add 10.9.0.5/32 dev probe",
		"-n " + peer + " address add 10.9.0.1/24 dev peer", "-n " + peer + " neighbour replace 10.9.0.5 lladdr 02:00:00:00:00:99 nud stale dev peer",
	} {
		ip(t, line)
	}
	ns, err := netns.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if err := ns.Do(func() error { return acd.Announce("probe", []netip.Addr{netip.MustParseAddr("10.9.0.5")}) }); err != nil {
		t.Fatal(err)
	}
	sandbox.Eventually(t, "the neighbour knows the new MAC", func() bool {
		return strings.Contains(neighbours(t, peer, "peer"), "10.9.0.5 lladdr 02:00:00:00:00:01")
	}, func() string { return neighbours(t, peer, "peer") })
}

// TestAnnounceAtOnce: an address is announced by two at the same time, as an attach and what announces again do.
func TestAnnounceAtOnce(t *testing.T) {
	path, _ := newLink(t)
	ip(t, "-n "+filepath.Base(path)+" address add 10.9.0.5/24 dev probe")
	ns, err := netns.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	failed := make(chan error)
	for range 2 {
		go func() {
			failed <- ns.Do(func() (err error) {
				for i := 0; err == nil && i < 1000; i++ {
					err = acd.Announce("probe", []netip.Addr{netip.MustParseAddr("10.9.0.5")})
				}
				return err
			})
		}()
	}
	if err := errors.Join(<-failed, <-failed); err != nil {
		t.Error(err)
	}
}

// TestAnnounceAgain: it announces again, and ends when the namespace is gone.
func TestAnnounceAgain(t *testing.T) {
	path, peer := newLink(t)
	own := filepath.Base(path)
	ip(t, "-n "+own+" link set probe address 02:00:00:00:00:01")
	ip(t, "-n "+own+" address add 10.9.0.5/24 dev probe")
	ip(t, "-n "+peer+" address add 10.9.0.1/24 dev peer")
	ip(t, "-n "+peer+" neighbour replace 10.9.0.5 lladdr 02:00:00:00:00:99 nud stale dev peer")
	if err := hook.AnnounceAgain(t.Context(), []string{path, "probe", "10.9.0.5"}); err != nil {
		t.Fatal(err)
	}
	sandbox.Eventually(t, "the neighbour knows the new MAC", func() bool { return strings.Contains(neighbours(t, peer, "peer"), "02:00:00:00:00:01") })
	if err := hook.AnnounceAgain(t.Context(), []string{"/run/netns/gone", "probe", "10.9.0.5"}); err == nil {
		t.Error("no error without the namespace")
	}
}
