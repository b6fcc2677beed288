// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

func TestMain(m *testing.M) {
	os.Exit(sandbox.MainIfRoot(m.Run))
}

// create makes a namespace for the length of a test.
func create(t *testing.T, name string) string {
	t.Helper()
	path, err := netns.Create(netns.DefaultDir, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Remove(path); err != nil {
			t.Error(err)
		}
	})
	return path
}

func openNamespace(t *testing.T, path string) *netns.Namespace {
	t.Helper()
	n, err := netns.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

func own(t *testing.T) string {
	t.Helper()
	link, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return link
}

func TestRootCreateAndRemove(t *testing.T) {
	roottest.Require(t)
	before := own(t)
	path := create(t, "one")
	if after := own(t); after != before {
		t.Errorf("the caller's namespace changed from %s to %s", before, after)
	}
	if out := sandbox.Run(t, "ip", "netns", "list"); !strings.Contains(out, "one") {
		t.Errorf("`ip netns` does not see it: %q", out)
	}
	if _, err := netns.Create(netns.DefaultDir, "one"); !errors.Is(err, netns.ErrExists) {
		t.Errorf("a second time: %v, want ErrExists", err)
	}
	n := openNamespace(t, path)
	interfaces, err := n.Interfaces()
	if err != nil || len(interfaces) != 1 || interfaces[0].Name != "lo" || !interfaces[0].Up {
		t.Errorf("interfaces %+v, %v, want lo, up", interfaces, err)
	}
	for range 2 {
		if err := netns.Remove(path); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it is still there")
	}
}

// TestRootMount: a new namespace has its identity before it has a path, and does not take
// the path of another.
func TestRootMount(t *testing.T) {
	roottest.Require(t)
	n, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	other := openNamespace(t, create(t, "taken"))
	if _, err := n.Mount(netns.DefaultDir, "taken"); !errors.Is(err, netns.ErrExists) {
		t.Errorf("at the path of another: %v, want ErrExists", err)
	}
	if at := openNamespace(t, netns.DefaultDir+"/taken"); at.ID() != other.ID() || n.ID() == other.ID() {
		t.Errorf("the path has %s, want %s; the new one is %s", at.ID(), other.ID(), n.ID())
	}
	path, err := n.Mount(netns.DefaultDir, "free")
	if err != nil {
		t.Fatal(err)
	}
	defer netns.Remove(path)
	if at := openNamespace(t, path); at.ID() != n.ID() {
		t.Errorf("the path has %s, want %s", at.ID(), n.ID())
	}
}

// TestRootCreateTogether has a directory's first namespaces made at once, as when
// allocations start after a boot: the directory is to be mounted once.
func TestRootCreateTogether(t *testing.T) {
	roottest.Require(t)
	for round := range 20 {
		dir := fmt.Sprintf("/run/together%d", round)
		start := make(chan struct{})
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				<-start
				path, err := netns.Create(dir, fmt.Sprint("n", i))
				if err := errors.Join(err, netns.Remove(path)); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		group.Wait()
		mounts := sandbox.Run(t, "cat", "/proc/self/mountinfo")
		if n := strings.Count(mounts, " "+dir+" "); n != 1 || strings.Contains(mounts, dir+"/") {
			t.Fatalf("%s is mounted %d times, want once, and nothing below it:\n%s", dir, n, mounts)
		}
	}
}

func TestMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	sandbox.WriteFile(t, file, "")
	for name, path := range map[string]string{"gone": "/run/netns/none", "empty": "", "not a namespace": file, "below a file": file + "/x", "of another kind": "/proc/self/ns/mnt", "of a process's files": "/proc/version"} {
		_, err := netns.Open(path)
		_, own := netns.IsOwn(path)
		if !errors.Is(err, netns.ErrMissing) || !errors.Is(own, netns.ErrMissing) || netns.Exists(path) {
			t.Errorf("%s: %v, %v, want ErrMissing", name, err, own)
		}
	}
}

func TestRootIsOwn(t *testing.T) {
	roottest.Require(t)
	for path, want := range map[string]bool{create(t, "other"): false, "/proc/self/ns/net": true} {
		if own, err := netns.IsOwn(path); err != nil || own != want {
			t.Errorf("%s: %v, %v", path, own, err)
		}
		if !netns.Exists(path) {
			t.Errorf("%s does not exist", path)
		}
	}
}

// TestRootIsOwnWhileThreadsEnd: the thread on which a caller was before may have ended.
func TestRootIsOwnWhileThreadsEnd(t *testing.T) {
	roottest.Require(t)
	ns := openNamespace(t, create(t, "other"))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				if err := ns.Do(func() error { return nil }); err != nil {
					t.Error(err)
				}
				if own, err := ns.IsOwn(); err != nil || own {
					t.Errorf("%v, %v", own, err)
				}
			}
		})
	}
	all.Wait()
}

func TestRootIDIsNeverUsedAgain(t *testing.T) {
	roottest.Require(t)
	seen := map[string]bool{}
	for range 20 {
		path := create(t, "again")
		n := openNamespace(t, path)
		if seen[n.ID()] {
			t.Fatalf("ID %s was used before", n.ID())
		}
		seen[n.ID()] = true
		if same := openNamespace(t, path); same.ID() != n.ID() {
			t.Errorf("one namespace has the IDs %s and %s", n.ID(), same.ID())
		}
		if err := errors.Join(n.Close(), netns.Remove(path)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRootDo(t *testing.T) {
	roottest.Require(t)
	n := openNamespace(t, create(t, "do"))
	before := own(t)
	var inside string
	if err := n.Do(func() error { inside = own(t); return nil }); err != nil {
		t.Fatal(err)
	}
	if inside == before || own(t) != before {
		t.Errorf("inside %s, before %s, after %s", inside, before, own(t))
	}
	failed := errors.New("failed")
	if err := n.Do(func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}

func ip(t *testing.T, args string) {
	t.Helper()
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", args, err, out)
	}
}

func TestRootInterfacesAndRoutes(t *testing.T) {
	roottest.Require(t)
	n := openNamespace(t, create(t, "routes"))
	for _, args := range []string{
		"link add name na type veth peer name nb", "link set na address 02:00:00:00:00:0a mtu 1400 up", "link set nb up",
		"addr add 10.1.0.2/24 dev na", "addr add fd00:1::2/64 dev na nodad", "addr add 10.2.0.2/24 dev nb", "addr add 10.1.0.3/24 dev na",
		"route add default via 10.1.0.1 dev na", "route add default via 10.1.0.9 dev na metric 100", "-6 route add default via fd00:1::1 dev na",
	} {
		ip(t, "-n routes "+args)
	}
	interfaces, err := n.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	a := interfaces[1]
	want := []netip.Prefix{netip.MustParsePrefix("10.1.0.2/24"), netip.MustParsePrefix("10.1.0.3/24"), netip.MustParsePrefix("fd00:1::2/64")}
	if a.Name != "na" || a.MAC != "02:00:00:00:00:0a" || a.MTU != 1400 || fmt.Sprint(a.Addresses) != fmt.Sprint(want) {
		t.Errorf("got %+v", a)
	}
	for range 2 {
		if err := n.SetDefaultRoute(netip.MustParseAddr("10.2.0.1"), "nb"); err != nil {
			t.Fatal(err)
		}
	}
	routes, err := n.DefaultRoutes()
	wanted := []netns.Route{{Interface: "nb", Gateway: netip.MustParseAddr("10.2.0.1")}, {Interface: "na", Gateway: netip.MustParseAddr("fd00:1::1")}}
	if err != nil || fmt.Sprint(routes) != fmt.Sprint(wanted) {
		t.Errorf("routes %v, %v, want %v: the other family is to be left alone", routes, err, wanted)
	}
	if err := n.AddDefaultRoute(netip.MustParseAddr("10.1.0.1"), "na"); err == nil || !strings.Contains(err.Error(), "there is another one, via 10.2.0.1 dev nb") {
		t.Errorf("beside another default route: %v", err)
	}
	if err := n.SetDefaultRoute(netip.MustParseAddr("192.0.2.1"), "nb"); err == nil || !strings.Contains(err.Error(), "192.0.2.1 dev nb") {
		t.Errorf("gateway out of reach: %v", err)
	}
	if diff := cmp.Diff(1, strings.Count(sandbox.Run(t, "ip", "-n", "routes", "-6", "route", "show", "default"), "default")); diff != "" {
		t.Error(diff)
	}
}

// TestRootRemoveDefaultRoutes: those of other interfaces stay, also as a path of a route of several, and so do
// those without a gateway.
func TestRootRemoveDefaultRoutes(t *testing.T) {
	roottest.Require(t)
	n := openNamespace(t, create(t, "removed"))
	for _, args := range []string{
		"link add na type veth peer name nb", "link set na up", "link set nb up",
		"addr add 10.1.0.2/24 dev na", "addr add fd00:1::2/64 dev na nodad", "addr add 10.2.0.2/24 dev nb", "addr add fd00:2::2/64 dev nb nodad",
		"route add default via 10.1.0.1 dev na", "route add default via 10.1.0.9 dev na metric 100", "route add default dev na metric 200", "route add default via 10.2.0.1 dev nb metric 50",
		"-6 route add default via fd00:1::1 dev na", "-6 route append default via fd00:2::1 dev nb",
	} {
		ip(t, "-n removed "+args)
	}
	for range 2 {
		for _, v6 := range []bool{false, true} {
			if err := n.RemoveDefaultRoutes("na", v6); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := n.RemoveDefaultRoutes("missing0", false); err == nil || !strings.Contains(err.Error(), "find missing0") {
		t.Errorf("of a missing interface: %v", err)
	}
	routes, err := n.DefaultRoutes()
	if got, want := fmt.Sprint(routes), "[{nb 10.2.0.1} {na invalid IP} {nb fd00:2::1}]"; err != nil || got != want {
		t.Errorf("routes %s, %v, want %s", got, err, want)
	}
}

// TestRootRemoveFails: what cannot be removed is an error.
func TestRootRemoveFails(t *testing.T) {
	roottest.Require(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := netns.Remove(dir); err == nil {
		t.Error("a directory with a file counts as removed")
	}
}

func TestRootIsIPv6Off(t *testing.T) {
	roottest.Require(t)
	n := openNamespace(t, create(t, "six"))
	ip(t, "-n six link add na type veth peer name nb")
	sandbox.Run(t, "ip", "netns", "exec", "six", "sysctl", "-w", "net.ipv6.conf.na.disable_ipv6=1")
	for iface, want := range map[string]bool{"na": true, "nb": false} {
		if off, err := n.IsIPv6Off(iface); off != want || err != nil {
			t.Errorf("%s: %v, %v, want %v", iface, off, err, want)
		}
	}
}

// TestRootSuspendIPv6: meanwhile interfaces come without IPv6, and later ones with it. What an operator has switched off stays off.
func TestRootSuspendIPv6(t *testing.T) {
	roottest.Require(t)
	n := openNamespace(t, create(t, "six"))
	require := func(iface string, want bool) {
		t.Helper()
		if off, err := n.IsIPv6Off(iface); off != want || err != nil {
			t.Errorf("%s: %v, %v, want %v", iface, off, err, want)
		}
	}
	for range 2 {
		if err := n.SuspendIPv6(); err != nil {
			t.Fatal(err)
		}
		require(netns.NewInterfaces, true)
	}
	ip(t, "-n six link add na type veth peer name nb")
	for range 2 {
		if err := n.ResumeIPv6(); err != nil {
			t.Fatal(err)
		}
	}
	ip(t, "-n six link add nc type veth peer name nd")
	require("na", true)
	require("nc", false)
	if err := n.SwitchIPv6Off("nc"); err != nil {
		t.Fatal(err)
	}
	require("nc", true)
	sandbox.Run(t, "ip", "netns", "exec", "six", "sysctl", "-w", "net.ipv6.conf.default.disable_ipv6=1")
	if err := errors.Join(n.SuspendIPv6(), n.ResumeIPv6(), n.SwitchIPv6Off("none0")); err != nil {
		t.Fatal(err)
	}
	require(netns.NewInterfaces, true)
}

// TestRootMainThreadStays: a main thread that entered a namespace would stay there.
func TestRootMainThreadStays(t *testing.T) {
	roottest.Require(t)
	before, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	path, err := netns.Create(netns.DefaultDir, "main-thread")
	if err != nil {
		t.Fatal(err)
	}
	defer netns.Remove(path)
	ns, err := netns.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	for range 200 {
		time.Sleep(time.Millisecond) // so that the main thread is idle, too
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := ns.Do(func() error { return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	if after, err := os.Readlink("/proc/self/ns/net"); err != nil || after != before {
		t.Errorf("the main thread is in %s, %v, and was in %s", after, err, before)
	}
}

// TestRootUnused lists the namespaces that no process is in, and files that are none.
func TestRootUnused(t *testing.T) {
	roottest.Require(t)
	used, left, file := create(t, "used"), create(t, "left"), filepath.Join(netns.DefaultDir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(file) })
	cmd := exec.Command("nsenter", "--net="+used, "cat")
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{used, left, file, filepath.Join(netns.DefaultDir, "missing")}
	sandbox.Eventually(t, "the process is in its namespace", func() bool {
		unused, err := netns.Unused(paths)
		return err == nil && slices.Equal(unused, []string{left, file})
	})
	_ = in.Close()
	_ = cmd.Wait() // it has read all
	if unused, err := netns.Unused(paths); err != nil || !slices.Equal(unused, []string{used, left, file}) {
		t.Errorf("got %q, %v", unused, err)
	}
	if unused, err := netns.Unused(paths[3:]); err != nil || unused != nil {
		t.Errorf("got %q, %v, want nothing", unused, err)
	}
}

// TestRootHandle: a handle leads to the namespace, in other processes too, when its path leads to another one.
func TestRootHandle(t *testing.T) {
	roottest.Require(t)
	path, other := create(t, "mine"), openNamespace(t, create(t, "other"))
	first := openNamespace(t, path)
	if err := netns.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Mount(netns.DefaultDir, "mine"); err != nil {
		t.Fatal(err)
	}
	if again := openNamespace(t, first.Handle()); again.ID() != first.ID() || openNamespace(t, path).ID() != other.ID() {
		t.Errorf("%s leads to %s, want %s", first.Handle(), again.ID(), first.ID())
	}
	if inode := sandbox.Run(t, "stat", "-L", "-c", "%i", first.Handle()); inode != fmt.Sprintln(first.Inode()) {
		t.Errorf("for another process it has the inode %s, want %d", inode, first.Inode())
	}
}
