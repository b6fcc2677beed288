// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/stream"
)

// newLAN returns a host with networks on one link, where all machines reach each other: lan is strict, wide has the level network, and plain none.
func newLAN(t *testing.T) *host {
	t.Helper()
	sandbox.Run(t, "ip", "link", "add", "lan0", "up", "type", "veth", "peer", "name", "lan1")
	sandbox.Run(t, "ip", "link", "set", "lan1", "up")
	t.Cleanup(func() { sandbox.Run(t, "ip", "link", "del", "lan0") })
	sandbox.Eventually(t, "the link is up", func() bool {
		return !strings.Contains(sandbox.Run(t, "ip", "-6", "-o", "addr", "show", "tentative"), "lan0")
	})
	h := newHost(t)
	for i, options := range []string{`"isolation": "strict", "enforce": "inside"`, `"isolation": "network", "enforce": "inside"`, `"isolation": "none"`} {
		name, v4 := []string{"lan", "wide", "plain"}[i], fmt.Sprintf("10.147.%d", i+1)
		sandbox.WriteFile(h, filepath.Join(h.conf, name+".conflist"), fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "allocnet": {%s}, "plugins": [{"type": "macvlan", "master": "lan0", "ipam": {"type": "host-local", "dataDir": %q,
			"ranges": [[{"subnet": "10.147.0.0/16", "rangeStart": "%s.1", "rangeEnd": "%s.200"}], [{"subnet": "fd00:147::/64", "rangeStart": "fd00:147::%d:1", "rangeEnd": "fd00:147::%d:ff"}]]}}]}`,
			name, options, h.leases, v4, v4, i+1, i+1))
	}
	return h
}

// inside runs a program in a namespace.
func (h *host) inside(name string, command ...string) string {
	h.Helper()
	return sandbox.Run(h, append([]string{"ip", "netns", "exec", name}, command...)...)
}

const (
	webReachesDB = "allow \"web reaches db\" {\n  from {\n    namespace = \"prod\"\n    job       = \"web\"\n  }\n  to { job = \"db\" }\n  ports = [\"80/tcp\"]\n}\n"
	idleIsIdle   = "egress \"idle\" {\n  from { job = \"idle\" }\n}\n"
)

// TestInside: jobs on macvlan reach what rules let them, inside of their namespaces. The agent has rules hold that change, knows jobs that come, and makes again what
// is flushed; established flows go on. A DEL leaves nothing.
func TestInside(t *testing.T) {
	h := newLAN(t)
	h.rules(webReachesDB + idleIsIdle)
	socket := h.startAgent()
	db, other := h.runJob("db-i", "db", "lan", socket), h.runJob("other-i", "other", "lan", "")
	far, plain, idle := h.runJob("far-i", "far", "wide", socket), h.runJob("plain-i", "plain", "plain", socket), h.runJob("idle-i", "idle", "wide", socket)
	web := h.runJob("web-i", "web", "lan", socket) // those before it get to know it
	h.require(all(web, db, true), all(db, web, false), all(other, db, false), all(far, db, false), all(plain, db, false), all(web, far, false), all(web, plain, true), all(plain, far, true),
		all(far, plain, true), all(idle, plain, false), all(far, idle, true))
	var talks []*stream.Talk
	for _, w := range ways(web, db) {
		talks = append(talks, stream.StartTalk(t, w))
	}
	h.rules(strings.Replace(webReachesDB, `"web"`, `"*"`, 1))
	h.await("a rule that was changed holds", append(all(other, db, true), all(far, db, true)...))
	h.await("a rule that is gone does not hold", all(idle, plain, true))
	h.require(all(db, web, false))
	h.rules(webReachesDB + idleIsIdle)
	h.await("the former rule holds", all(other, db, false))
	began := time.Now()
	h.inside("db-i", "nft", "flush", "ruleset")
	sandbox.Eventually(t, "the tables are there again", func() bool {
		return strings.Count(h.inside("db-i", "nft", "list", "tables"), "allocnet-isolation") == 2
	})
	t.Logf("repaired after %s", time.Since(began).Round(time.Millisecond))
	h.require(all(web, db, true), all(other, db, false), all(db, other, false))
	for _, talk := range talks {
		stream.RequireKept(t, talk)
	}
	h.requireShown()
	path, err := netns.Create(netns.DefaultDir, "gone-i")
	if err != nil {
		t.Fatal(err)
	}
	h.call("ADD", "gone-i", "web", "lan", "")
	if tables := h.inside("db-i", "nft", "list", "ruleset"); !strings.Contains(tables, `"@gone-i"`) {
		t.Error("an allocation is not known to another one")
	}
	h.call("DEL", "gone-i", "web", "lan", socket)
	if left := h.inside("gone-i", "nft", "list", "ruleset"); left != "" {
		t.Errorf("a DEL leaves %s", left)
	}
	if tables := h.inside("db-i", "nft", "list", "ruleset"); strings.Contains(tables, `"@gone-i"`) {
		t.Error("an allocation that is gone is known to another one")
	}
	if err := netns.Remove(path); err != nil {
		t.Error(err)
	}
}

// TestInsideDevice: a device of the host that plugins have moved into an allocation is isolated there from before ADD until it is back.
func TestInsideDevice(t *testing.T) {
	h := newLAN(t)
	sandbox.WriteFile(h, filepath.Join(h.conf, "device.conflist"), fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "device", "allocnet": {"isolation": "strict", "enforce": "inside"}, "plugins": [{"type": "host-device", "device": "lan1",
		"ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.147.0.0/16", "rangeStart": "10.147.4.1", "rangeEnd": "10.147.4.200"}]]}}]}`, h.leases))
	device, plain := h.runJob("device-i", "device", "device", ""), h.runJob("plain-d", "plain", "plain", "")
	h.require(all(plain, device, false), all(device, place{addresses: plain.addresses[:1]}, true))
	h.call("DEL", "device-i", "device", "device", "")
	if left := h.inside("device-i", "nft", "list", "ruleset"); left != "" {
		t.Errorf("a DEL leaves %s", left)
	}
	sandbox.Run(t, "ip", "link", "set", "lan1", "up")
}

// requireShown: what was denied is counted, and the commands tell what passes.
func (h *host) requireShown() {
	h.Helper()
	var a hook.Allocation
	if err := json.Unmarshal([]byte(h.must("status", "db-i", "--json")), &a); err != nil {
		h.Fatal(err)
	}
	if d := a.Attachments[0].Denied; d == nil || d.Packets == 0 {
		h.Errorf("denied is %+v", d)
	}
	for args, want := range map[string]string{
		"policy test web-i db-i:80": "rule 1", "policy show": "strict, inside", "policy show db-i": "attachments of other networks", "check db-i": "", "networks": "enforced inside",
	} {
		if out := h.must(strings.Fields(args)...); !strings.Contains(out, want) {
			h.Errorf("%s: %s, want %q", args, out, want)
		}
	}
	if out, err := h.run("policy", "test", "other-i", "db-i:80"); err == nil || !strings.Contains(out, "rule 6") {
		h.Errorf("a denied flow: %s, %v", out, err)
	}
	if out, err := h.run("doctor"); !strings.Contains(out, "CAP_NET_RAW") {
		h.Errorf("doctor: %s, %v", out, err)
	}
}

// TestInsideKilled is TestKilled for a network that is kept apart inside: an attach that follows has it so.
func TestInsideKilled(t *testing.T) {
	h := newLAN(t)
	kill := func(after time.Duration, args ...string) {
		cmd := exec.Command(binary, args...)
		cmd.Env = h.environ()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // killed, or done before
	}
	for i := range 6 {
		id, after := fmt.Sprint("killed-", i), time.Duration(20+15*i)*time.Millisecond
		kill(after, "attach", "--primary", "lan", id)
		h.must("attach", "--primary", "lan", id)
		if tables := h.inside(id, "nft", "list", "tables"); strings.Count(tables, "allocnet-isolation") != 2 {
			t.Errorf("%s has %s", id, tables)
		}
		kill(after, "detach", id)
		if i%2 == 0 {
			h.must("detach", id)
		}
	}
	h.must("gc")
	for i := range 6 {
		h.must("detach", fmt.Sprint("killed-", i))
	}
}
