// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package isolation attaches allocations to networks that keep them apart, as users do, and sends packets between them.
package isolation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/stream"
	"github.com/allocnet/allocnet/isolation"
)

func TestMain(m *testing.M) {
	os.Exit(sandbox.MainDivided(m.Run, func() error { return sandbox.InstallRaced(bin, "allocnet", "allocnet-cni") }))
}

// Paths of the tests. /run is that of the sandbox.
const (
	bin    = "/run/bin"
	binary = bin + "/allocnet"
)

// own is the host's namespace.
const own = "/proc/self/ns/net"

// levels are those of the networks, which are bridges but pair.
var levels = map[string]isolation.Level{"open": "", "apart": isolation.Network, "strict": isolation.Strict, "pair": isolation.Network}

// warm makes what networks leave in a sandbox: their bridges.
var warm sync.Once

// host is a host with these networks.
type host struct {
	*testing.T
	conf, state, leases, before string
}

// newHost returns a host whose networks have been attached once without isolation. When the test ends, the host has to be as it was then.
func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{T: t, conf: t.TempDir(), state: t.TempDir(), leases: t.TempDir()}
	if err := os.MkdirAll(filepath.Dir(isolation.DefaultFile), 0o755); err != nil {
		t.Fatal(err)
	}
	warm.Do(func() {
		for name := range levels {
			h.network(name, "")
			h.must("attach", "--primary", name, "-p", "8079:80", "warm")
			h.must("detach", "warm")
		}
	})
	for name, level := range levels {
		h.network(name, level)
	}
	h.before = h.snapshot()
	t.Cleanup(func() {
		if err := os.Remove(isolation.DefaultFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		if after := h.snapshot(); after != h.before {
			t.Errorf("the host was\n%s\nand is\n%s", h.before, after)
		}
		if left, err := os.ReadDir(filepath.Join(h.state, "isolation")); err != nil || len(left) > 0 {
			t.Errorf("on record is %v, %v", left, err)
		}
	})
	return h
}

// snapshot is the host with what isolation changes of bridges.
func (h *host) snapshot() string {
	h.Helper()
	text := sandbox.Snapshot(h)
	for _, key := range []string{"ipv4/conf/%s0/proxy_arp_pvlan", "ipv6/conf/%s0/proxy_ndp", "ipv4/conf/%s0/send_redirects"} {
		for _, name := range []string{"open", "apart", "strict"} {
			path := fmt.Sprintf("/proc/sys/net/"+key, name)
			value, err := os.ReadFile(path)
			if err != nil {
				h.Fatal(err)
			}
			text += path + " " + string(value)
		}
	}
	return text + sandbox.Run(h, "ip", "-6", "neigh", "show", "proxy")
}

// network writes a network of a level; empty: without the key.
func (h *host) network(name string, level isolation.Level) {
	h.Helper()
	number := map[string]int{"open": 77, "apart": 78, "strict": 79, "pair": 80}[name]
	plugin := fmt.Sprintf(`"type": "bridge", "bridge": "%s0", "isGateway": true`, name)
	if name == "pair" {
		plugin = `"type": "ptp"`
	}
	options := ""
	if level != "" {
		options = fmt.Sprintf(`"allocnet": {"isolation": %q}, `, level)
	}
	sandbox.WriteFile(h, filepath.Join(h.conf, name+".conflist"), fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, %s"plugins": [
		{%s, "ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.%d.0.0/24"}], [{"subnet": "fd00:%d::/64"}]],
		 "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
		{"type": "portmap", "capabilities": {"portMappings": true}}]}`, name, options, plugin, h.leases, number, number))
}

// rules writes the rules of the host.
func (h *host) rules(text string) {
	h.Helper()
	sandbox.WriteFile(h, isolation.DefaultFile, text)
}

func (h *host) environ() []string {
	return append(os.Environ(), "ALLOCNET_CONF_DIR="+h.conf, "ALLOCNET_PLUGIN_DIR="+sandbox.PluginDir(), "ALLOCNET_STATE_DIR="+h.state, "GORACE=atexit_sleep_ms=0")
}

func (h *host) run(args ...string) (stdout string, err error) {
	cmd := exec.Command(binary, args...)
	cmd.Env = h.environ()
	var out, text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &text
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("allocnet %s: %w\n%s", strings.Join(args, " "), err, text.String())
	}
	return out.String(), err
}

// must runs allocnet, which has to succeed.
func (h *host) must(args ...string) string {
	h.Helper()
	out, err := h.run(args...)
	if err != nil {
		h.Fatal(err)
	}
	return out
}

// refuse runs allocnet, which has to fail with an error that has the words.
func (h *host) refuse(words string, args ...string) {
	h.Helper()
	if _, err := h.run(args...); err == nil || !strings.Contains(err.Error(), words) {
		h.Errorf("allocnet %s: %v, want %q", strings.Join(args, " "), err, words)
	}
}

// place is an allocation on one network, in which a server listens.
type place struct {
	name, netns string
	addresses   []string
}

// attach attaches an allocation to a network, until the test ends.
func (h *host) attach(id, network string, more ...string) place {
	h.Helper()
	var a hook.Allocation
	if err := json.Unmarshal([]byte(h.must(append([]string{"attach", "--json", "--primary", network, id}, more...)...)), &a); err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { h.must("detach", id) })
	p := place{name: id, netns: a.Netns}
	for _, address := range a.Attachments[0].Addresses {
		p.addresses = append(p.addresses, address.Addr().String())
	}
	return p
}

// serve has a server listen in a place until the test ends. The addresses of bridges are tentative until those have a port, and for some time
// after that: meanwhile the host would connect with an address of another link, to which no answer comes.
func (h *host) serve(p place) place {
	h.Helper()
	stream.Listen(h, p.netns, ":80")
	tentative := ""
	sandbox.Eventually(h, "the host has its addresses", func() bool {
		tentative = sandbox.Run(h, "ip", "-6", "-o", "addr", "show", "tentative")
		return tentative == ""
	}, func() string { return tentative })
	return p
}

// denied is how long a connection is awaited that may not be made, and allowed one that may.
const denied, allowed = 300 * time.Millisecond, 20 * time.Second

// reaches tells whether a connection can be made from a namespace.
func reaches(path, to string, limit time.Duration) error {
	ns, err := netns.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	return ns.Do(func() error {
		conn, err := net.DialTimeout("tcp", to, limit)
		if err == nil {
			_ = conn.(*net.TCPConn).SetLinger(0)
			err = conn.Close()
		}
		return err
	})
}

// probe is a connection, and whether it can be made.
type probe struct {
	from place
	to   string
	want bool
}

// all are the probes from one place to the addresses of another.
func all(from, to place, want bool) (probes []probe) {
	for _, address := range to.addresses {
		probes = append(probes, probe{from, net.JoinHostPort(address, "80"), want})
	}
	return probes
}

// require makes all connections at once.
func (h *host) require(probes ...[]probe) {
	h.Helper()
	var group sync.WaitGroup
	for _, p := range slices.Concat(probes...) {
		group.Go(func() {
			limit := denied
			if p.want {
				limit = allowed
			}
			if err := reaches(p.from.netns, p.to, limit); (err == nil) != p.want {
				h.Errorf("from %s to %s: %v, want it made: %t", p.from.name, p.to, err, p.want)
			}
		})
	}
	group.Wait()
}
