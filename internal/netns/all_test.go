// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// placeOf returns the namespace that has an address; nil if none has.
func placeOf(t *testing.T, address string) *netns.Place {
	t.Helper()
	places, err := netns.Others()
	if err != nil {
		t.Error(err)
	}
	i := slices.IndexFunc(places, func(p netns.Place) bool { return slices.Contains(p.Addresses, netip.MustParseAddr(address)) })
	if i < 0 {
		return nil
	}
	return &places[i]
}

// holder starts a shell that says when it has done what makes a namespace last, and ends with the test.
func holder(t *testing.T, script string) {
	t.Helper()
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-ec", script+"; echo done; read _")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // it has read nothing
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "done\n" {
		t.Fatalf("%s: %q, %v", script, line, err)
	}
}

// TestRootOthers finds a namespace by whatever is all that refers to it.
func TestRootOthers(t *testing.T) {
	roottest.Require(t)
	for name, hold := range map[string]func(t *testing.T, path string){
		"its mount": func(*testing.T, string) {},
		"a mount elsewhere": func(t *testing.T, path string) {
			dir := filepath.Join(t.TempDir(), `a b\c`)
			sandbox.WriteFile(t, dir, "")
			sandbox.Run(t, "mount", "--bind", path, dir)
			t.Cleanup(func() { sandbox.Run(t, "umount", dir) })
			sandbox.Run(t, "ip", "netns", "delete", "held")
		},
		"a mount of another mount namespace": func(t *testing.T, path string) {
			dir := t.TempDir()
			holder(t, fmt.Sprintf("mount -t tmpfs none %[2]s; touch %[2]s/ns; mount --bind %[1]s %[2]s/ns; umount %[1]s", path, dir))
			sandbox.Run(t, "ip", "netns", "delete", "held")
		},
		"a process": func(t *testing.T, path string) {
			holder(t, "exec nsenter --net="+path+` sh -c "umount `+path+`; echo done; read _"`)
			sandbox.Run(t, "ip", "netns", "delete", "held")
		},
		"a descriptor": func(t *testing.T, path string) {
			holder(t, fmt.Sprintf("exec 7< %[1]s; umount -l %[1]s", path))
			sandbox.Run(t, "ip", "netns", "delete", "held")
		},
		"a thread": func(t *testing.T, path string) {
			ns := openNamespace(t, path)
			entered, end := make(chan bool), make(chan bool)
			done := make(chan error, 1)
			go func() {
				done <- ns.Do(func() error { close(entered); <-end; return nil })
			}()
			t.Cleanup(func() { close(end); <-done })
			<-entered
			_ = ns.Close()
			sandbox.Run(t, "ip", "netns", "delete", "held")
		},
		"a socket": func(t *testing.T, path string) {
			ns := openNamespace(t, path)
			socket := -1
			err := ns.Do(func() (err error) {
				socket, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Close(socket) })
			_ = ns.Close()
			sandbox.Run(t, "ip", "netns", "delete", "held")
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(netns.DefaultDir, "held")
			sandbox.Run(t, "ip", "netns", "add", "held")
			ip(t, "link add held0 type veth peer name eth0 netns held")
			ip(t, "-n held addr add 10.77.0.2/24 dev eth0 scope link")
			t.Cleanup(func() {
				if err := netns.Remove(path); err != nil {
					t.Error(err)
				}
				_ = exec.Command("ip", "link", "delete", "held0").Run() // it may have ended with the namespace
			})
			ns, err := netns.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			_ = ns.Close() // it would refer to it
			hold(t, path)
			requireFound(t, ns.ID(), name != "a socket")
			if p := placeOf(t, "10.77.0.2"); p == nil {
				t.Error("it is not found")
			} else if name == "a mount elsewhere" && filepath.Base(p.Mounts[0]) != `a b\c` {
				t.Errorf("it is %+v", p)
			}
		})
	}
	sandbox.Eventually(t, "the namespaces that nothing refers to have ended", func() bool { return placeOf(t, "10.77.0.2") == nil })
}

// requireFound: Find opens what is referred to.
func requireFound(t *testing.T, id string, want bool) {
	t.Helper()
	found, err := (&netns.Finder{}).Find(id, time.Now())
	if !want && errors.Is(err, netns.ErrMissing) {
		return
	}
	if err != nil || !want || found.ID() != id {
		t.Fatalf("%v, found: %t, want %t", err, found != nil, want)
	}
	_ = found.Close() // only looked for
}

// TestRootFinder: what was not there when the host was searched is missing without a search. What was made since, or has
// changed its place, is searched for.
func TestRootFinder(t *testing.T) {
	roottest.Require(t)
	var f netns.Finder
	first := openNamespace(t, create(t, "first"))
	early := time.Now().Add(-time.Hour)
	found, err := f.Find(first.ID(), early)
	if err != nil || found.ID() != first.ID() {
		t.Fatalf("%v", err)
	}
	_ = found.Close() // only looked for
	second := openNamespace(t, create(t, "second"))
	if _, err := f.Find(second.ID(), early); !errors.Is(err, netns.ErrMissing) {
		t.Errorf("it was searched for: %v", err)
	}
	if found, err := f.Find(second.ID(), time.Now()); err != nil || found.Close() != nil {
		t.Errorf("one that was made since: %v", err)
	}
	if err := netns.Remove(netns.DefaultDir + "/first"); err != nil {
		t.Fatal(err)
	}
	if found, err := f.Find(first.ID(), early); err != nil || found.Close() != nil { // this process has it open
		t.Errorf("one that has lost its path: %v", err)
	}
}

// TestRootHavingMAC: a namespace that has an interface with the MAC is found, and the caller's own is not.
func TestRootHavingMAC(t *testing.T) {
	roottest.Require(t)
	const mac = "02:00:00:00:77:01"
	path := create(t, "seen")
	sandbox.Run(t, "ip", "-n", "seen", "link", "add", "lan0", "address", mac, "type", "bridge")
	sandbox.Run(t, "ip", "link", "add", "lan0", "address", mac, "type", "bridge")
	defer sandbox.Run(t, "ip", "link", "delete", "lan0")
	found, err := (&netns.Finder{}).HavingMAC(mac, time.Now())
	if err != nil || len(found) != 1 || found[0].ID() != openNamespace(t, path).ID() || found[0].Close() != nil {
		t.Errorf("%v, %v", found, err)
	}
}

// TestRootHavingMACMoved: a link that has gone to another namespace since the host was searched is found there.
func TestRootHavingMACMoved(t *testing.T) {
	roottest.Require(t)
	const mac = "02:00:00:00:77:02"
	path, inner := create(t, "outer"), create(t, "inner")
	sandbox.Run(t, "ip", "-n", "outer", "link", "add", "lan0", "address", mac, "type", "veth", "peer", "name", "lan1")
	var f netns.Finder
	early := time.Now().Add(-time.Hour)
	found, err := f.HavingMAC(mac, early)
	if err != nil || len(found) != 1 || found[0].ID() != openNamespace(t, path).ID() || found[0].Close() != nil {
		t.Fatalf("%v, %v", found, err)
	}
	sandbox.Run(t, "ip", "-n", "outer", "link", "set", "lan0", "netns", "inner")
	found, err = f.HavingMAC(mac, early)
	if err != nil || len(found) != 1 || found[0].ID() != openNamespace(t, inner).ID() || found[0].Close() != nil {
		t.Errorf("%v, %v", found, err)
	}
}

// TestRootHidden: a mount that another one hides is an error, as nothing leads to its namespace.
func TestRootHidden(t *testing.T) {
	roottest.Require(t)
	path := create(t, "seen")
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/below", 0o700); err != nil {
		t.Fatal(err)
	}
	sandbox.WriteFile(t, dir+"/below/ns", "")
	sandbox.Run(t, "mount", "--bind", path, dir+"/below/ns")
	sandbox.Run(t, "mount", "-t", "tmpfs", "none", dir+"/below")
	t.Cleanup(func() { sandbox.Run(t, "umount", "-R", dir+"/below", dir+"/below/ns") })
	if _, err := netns.Others(); err != nil {
		t.Errorf("another path leads to it: %v", err)
	}
	inode := netns.Inode(path)
	if err := netns.Remove(path); err != nil {
		t.Fatal(err)
	}
	sandbox.Eventually(t, "nothing that has opened it is left, which is closed a moment later", func() bool {
		places, err := netns.Others()
		if isFound := func(p netns.Place) bool { return p.Inode == inode }; err == nil && !slices.ContainsFunc(places, isFound) {
			t.Fatal("it is taken for one that does not exist")
		}
		return err != nil
	})
}

// BenchmarkOthers has 300 namespaces, half of them behind veth interfaces, and 300 processes in
// them with a mount namespace each.
func BenchmarkOthers(b *testing.B) {
	for i := range 300 {
		name := fmt.Sprintf("bench-%d", i)
		sandbox.Run(b, "ip", "netns", "add", name)
		if i%2 == 0 {
			sandbox.Run(b, "ip", "link", "add", fmt.Sprintf("bench%d", i), "type", "veth", "peer", "name", "eth0", "netns", name)
		}
		cmd := exec.Command("ip", "netns", "exec", name, "sleep", "600")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
			_ = netns.Remove(filepath.Join(netns.DefaultDir, name))
		})
	}
	for b.Loop() {
		places, err := netns.Others()
		if err != nil || len(places) < 300 {
			b.Fatal(len(places), err)
		}
	}
}
