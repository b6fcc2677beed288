// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestNamesResolve: the name server of an extra network resolves names in allocnet run and
// in ip netns exec. Without DNS of its networks, a namespace has the servers that
// systemd-resolved asks, and not its stub on the loopback interface of the host.
func TestNamesResolve(t *testing.T) {
	h := newHost(t)
	server := h.attach("server", "--networks", "storage")
	address := server.Attachments[0].Addresses[0].Addr().String()
	serveNames(t, server.Netns, address)
	sandbox.WriteFile(t, filepath.Join(h.conf, "60-names.conflist"), fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "names", "plugins": [
		{"type": "bridge", "bridge": "storage0", "mtu": 1500, "dns": {"nameservers": [%q], "search": ["names.example"]},
		 "ipam": {"type": "host-local", "subnet": "10.89.0.0/16", "rangeStart": "10.89.200.0", "dataDir": "/run/names"}}]}`, address))
	defer os.RemoveAll("/run/names")
	host := read(t, "/etc/resolv.conf")
	defer sandbox.WriteFile(t, "/etc/resolv.conf", host)
	sandbox.WriteFile(t, "/etc/resolv.conf", "nameserver 127.0.0.53\noptions timeout:1 attempts:1\n")

	for name, test := range map[string]struct {
		flags    []string
		resolved string
	}{
		"an extra network": {flags: []string{"--primary", "web", "--networks", "names", "--dns", "merge"}},
		"the host":         {flags: []string{"--networks", "storage"}, resolved: "nameserver " + address + "\nsearch names.example\n"},
	} {
		t.Run(name, func(t *testing.T) {
			h := *h
			h.t = t
			if err := os.MkdirAll("/run/systemd/resolve", 0o755); err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll("/run/systemd")
			sandbox.WriteFile(t, "/run/systemd/resolve/resolv.conf", test.resolved)
			if out := h.must(append(append([]string{"run", "--id", "n1"}, test.flags...), "--", "getent", "hosts", "files")...); !strings.Contains(out, "192.0.2.7") {
				t.Errorf("allocnet run resolves to %q", out)
			}
			a := h.attach(append([]string{"n1"}, test.flags...)...)
			if out := sandbox.Run(t, "ip", "netns", "exec", "n1", "getent", "hosts", "files"); !strings.Contains(out, "192.0.2.7") {
				t.Errorf("ip netns exec resolves to %q; %s has %s", out, a.ResolvConf, read(t, a.ResolvConf))
			}
			h.must("detach", "n1")
		})
	}
	h.must("detach", "server")
	if err := os.Remove("/etc/resolv.conf"); err != nil {
		t.Fatal(err)
	}
	if o := h.allocnet("run", "--primary", "web", "--", "true"); o.code != 0 || !strings.Contains(o.stderr, "resolv.conf of the host") {
		t.Errorf("without a resolv.conf to mount over: exit code %d, %s", o.code, o.stderr)
	}
}

// TestRunMountsNothingOnHost: where mounts are shared, as under systemd, the resolv.conf of
// a command is not mounted over the host's, nor is what the command mounts.
func TestRunMountsNothingOnHost(t *testing.T) {
	h := newHost(t)
	sandbox.Run(t, "mount", "--make-rshared", "/etc")
	defer sandbox.Run(t, "mount", "--make-rprivate", "/etc")
	before := sandbox.Run(t, "cat", "/proc/self/mountinfo")
	h.must("run", "--primary", "web", "--", "mount", "-t", "tmpfs", "tmpfs", "/etc/netns")
	if diff := cmp.Diff(before, sandbox.Run(t, "cat", "/proc/self/mountinfo")); diff != "" {
		t.Errorf("mounted on the host (-before +after): %s", diff)
	}
}

// serveNames has a name server in a namespace. It knows files.names.example.
func serveNames(t *testing.T, path, address string) {
	t.Helper()
	ns, err := netns.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	var socket net.PacketConn
	err = ns.Do(func() error {
		socket, err = net.ListenPacket("udp", net.JoinHostPort(address, "53"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer, err := answerName(buffer[:n]); err == nil {
				_, _ = socket.WriteTo(answer, from)
			}
		}
	}()
}

func answerName(query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return nil, fmt.Errorf("%d questions: %w", len(m.Questions), err)
	}
	m.Response, m.RCode, m.Additionals = true, dnsmessage.RCodeNameError, nil
	q := m.Questions[0]
	if q.Name.String() == "files.names.example." {
		m.RCode = dnsmessage.RCodeSuccess
		if q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: [4]byte{192, 0, 2, 7}},
			}}
		}
	}
	return m.Pack()
}
