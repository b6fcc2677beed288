// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package acd tests the detection of duplicate addresses on a link between two namespaces.
package acd

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/acd"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

func TestMain(m *testing.M) { os.Exit(sandbox.Main(m.Run)) }

// ip runs the command ip.
func ip(t *testing.T, line string) {
	t.Helper()
	if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", line, err, out)
	}
}

// newLink returns the path of a namespace with the interface probe, and the name of another with
// the interface peer on the same link.
func newLink(t *testing.T) (path, peer string) {
	t.Helper()
	names := []string{strings.ToLower(t.Name()) + "-a", strings.ToLower(t.Name()) + "-b"}
	for _, name := range names {
		path, err := netns.Create(netns.DefaultDir, name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { exec.Command("ip", "netns", "del", filepath.Base(path)).Run() })
	}
	ip(t, "-n "+names[0]+" link add probe type veth peer name peer netns "+names[1])
	ip(t, "-n "+names[0]+" link set probe up")
	ip(t, "-n "+names[1]+" link set peer up")
	return filepath.Join(netns.DefaultDir, names[0]), names[1]
}

// probe asks from the namespace.
func probe(t *testing.T, path, iface, address string) (taken bool, err error) {
	t.Helper()
	return ask(t, path, iface, address, acd.Probe)
}

func ask(t *testing.T, path, iface, address string, by func(ctx context.Context, name string, address netip.Addr) (bool, error)) (taken bool, err error) {
	t.Helper()
	ns, openErr := netns.Open(path)
	if openErr != nil {
		t.Fatal(openErr)
	}
	defer ns.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := ns.Do(func() error {
		taken, err = by(ctx, iface, netip.MustParseAddr(address))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return taken, err
}

// TestProbe: the addresses of another host and those of the interface itself are taken.
func TestProbe(t *testing.T) {
	path, peer := newLink(t)
	ip(t, "-n "+peer+" address add 10.9.0.5/24 dev peer")
	ip(t, "-n "+peer+" address add fd09::5/64 dev peer nodad")
	ip(t, "-n "+filepath.Base(path)+" address add 10.9.0.1/24 dev probe")
	for address, want := range map[string]bool{
		"10.9.0.5": true, "10.9.0.6": false, "10.9.0.1": true, "fd09::5": true, "fd09::6": false,
	} {
		if taken, err := probe(t, path, "probe", address); err != nil || taken != want {
			t.Errorf("%s: taken %t, error %v; want %t", address, taken, err, want)
		}
	}
}

// TestContested: the addresses of another host are, and those that only the interface has are not. Where hosts do not ask for addresses, none is.
func TestContested(t *testing.T) {
	path, peer := newLink(t)
	own := filepath.Base(path)
	for _, line := range []string{
		"-n " + peer + " address add 10.9.0.5/24 dev peer", "-n " + own + " address add 10.9.0.5/24 dev probe", "-n " + own + " address add 10.9.0.1/24 dev probe",
		"-n " + peer + " address add fd09::5/64 dev peer nodad", "-n " + own + " address add fd09::5/128 dev probe nodad", "-n " + own + " address add fd09::1/64 dev probe nodad",
	} {
		ip(t, line)
	}
	for address, want := range map[string]bool{"10.9.0.5": true, "10.9.0.1": false, "10.9.0.6": false, "fd09::5": true, "fd09::1": false} {
		if contested, err := ask(t, path, "probe", address, acd.Contested); err != nil || contested != want {
			t.Errorf("%s: contested %t, error %v; want %t", address, contested, err, want)
		}
	}
	if contested, err := ask(t, path, "lo", "10.9.0.5", acd.Contested); err != nil || contested {
		t.Errorf("by an interface without Ethernet: contested %t, error %v", contested, err)
	}
}

// TestUnusableInterface: an interface that cannot ask is named.
func TestUnusableInterface(t *testing.T) {
	path, peer := newLink(t)
	want := func(iface, reason string) {
		t.Helper()
		if taken, err := probe(t, path, iface, "10.9.0.5"); taken || err == nil || !strings.Contains(err.Error(), iface) || !strings.Contains(err.Error(), reason) {
			t.Errorf("taken %t, error %v; want one with %s and %q", taken, err, iface, reason)
		}
	}
	want("missing0", "no such network interface")
	want("lo", "no Ethernet interface")
	ip(t, "-n "+peer+" link set peer down")
	sandbox.Eventually(t, "the interface has no carrier", func() bool {
		out, err := exec.Command("ip", "-n", filepath.Base(path), "-o", "link", "show", "probe").CombinedOutput()
		return err == nil && strings.Contains(string(out), "NO-CARRIER")
	})
	want("probe", "no carrier")
	ip(t, "-n "+filepath.Base(path)+" link set probe down")
	want("probe", "is down")
}
