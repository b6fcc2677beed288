// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/hostmap"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
)

// readMap returns the map as JSON has it.
func (h *host) readMap(args ...string) hostmap.Map {
	h.t.Helper()
	var m hostmap.Map
	if err := json.Unmarshal([]byte(h.must(append([]string{"map", "--json"}, args...)...)), &m); err != nil {
		h.t.Fatal(err)
	}
	return m
}

// TestMap: the map shows what status shows, and what is on the host.
func TestMap(t *testing.T) {
	h := newHost(t)
	h.attach("web-1", "--primary", "web", "--networks", "storage,vlan", "--publish", "8080:80/tcp+udp")
	h.attach("web-2", "--primary", "web")
	t.Cleanup(func() { h.must("detach", "web-1"); h.must("detach", "web-2") })

	var recorded []hook.Allocation
	if err := json.Unmarshal([]byte(h.must("status", "--json")), &recorded); err != nil {
		t.Fatal(err)
	}
	var want []hostmap.Allocation
	for _, a := range recorded {
		w := hostmap.Allocation{ID: a.ID, Identity: a.Identity, Netns: a.Netns}
		for _, n := range a.Attachments {
			w.Attachments = append(w.Attachments, hostmap.Attachment{Network: n.Network, Interface: n.Interface, Primary: n.Primary, Phase: n.Phase, Addresses: n.Addresses, MAC: n.MAC, Ports: n.Ports})
		}
		want = append(want, w)
	}
	m := h.readMap()
	if diff := cmp.Diff(want, m.Allocations, cmp.Comparer(func(a, b fmt.Stringer) bool { return a.String() == b.String() })); diff != "" {
		t.Errorf("the map is not what status shows (-status +map):\n%s", diff)
	}
	text := h.must("map")
	for _, a := range recorded {
		for _, n := range a.Attachments {
			for _, word := range append([]string{a.ID, n.Interface, n.Network, string(n.Phase)}, n.Addresses[0].String()) {
				if !strings.Contains(text, word) {
					t.Errorf("the map has no %s:\n%s", word, text)
				}
			}
		}
	}
	h.requireNetworks(m)
	h.requireDamageOnMap()
}

// requireNetworks fails the test if the map does not show the sandbox's networks.
func (h *host) requireNetworks(m hostmap.Map) {
	h.t.Helper()
	for _, n := range m.Networks {
		if n.Name != "web" && n.Name != "vlan" {
			continue
		}
		d := n.Devices[0]
		if d.State != hostmap.Up || d.MTU != 1500 || d.Bridge != (n.Name == "web") || d.Drift != "" || len(n.Pools) != 1 || n.Pools[0].Used != n.Attachments {
			h.t.Errorf("network %s: %+v", n.Name, n)
		}
	}
}

// requireDamageOnMap damages what web-1 and its networks have, repairs it, and fails the test if
// the map does not show the damage alone.
func (h *host) requireDamageOnMap() {
	h.t.Helper()
	for _, test := range []struct{ damage, repair, want string }{
		{"ip -n web-1 link set net1 down", "ip -n web-1 link set net1 up", "storage net1: interface is down"},
		{"ip -n web-1 addr flush dev net1", "", "storage net1: address"},
		{"ip -n web-1 link set lo down", "ip -n web-1 link set lo up", "web-1: interface lo is down"},
		{"ip -n web-1 link delete net2", "", "vlan net2: interface is gone"},
		{"ip link set storage0 down", "ip link set storage0 up", "storage: storage0 is down"},
	} {
		before := drifts(h.readMap())
		sandbox.Run(h.t, strings.Fields(test.damage)...)
		after := drifts(h.readMap())
		if len(after) <= len(before) && !strings.Contains(test.want, "address") || !strings.Contains(strings.Join(after, "\n"), test.want) {
			h.t.Errorf("after %s the map shows %q, want %q", test.damage, after, test.want)
		}
		if test.repair != "" {
			sandbox.Run(h.t, strings.Fields(test.repair)...)
		}
	}
	if o := h.allocnet("map", "--allocation", "web-1", "--network", "vlan"); o.code != 0 || !strings.Contains(o.stdout, "! interface is gone") || strings.Contains(o.stdout, "storage") {
		h.t.Errorf("exit code %d\n%s", o.code, o.stdout)
	}
}

// drifts are the differences of a map, each with its place.
func drifts(m hostmap.Map) []string {
	var all []string
	for _, n := range m.Networks {
		for _, d := range n.Devices {
			if d.Drift != "" {
				all = append(all, n.Name+": "+d.Drift)
			}
		}
	}
	for _, a := range m.Allocations {
		for _, drift := range a.Drift {
			all = append(all, a.ID+": "+drift)
		}
		for _, n := range a.Attachments {
			for _, drift := range n.Drift {
				all = append(all, n.Network+" "+n.Interface+": "+drift)
			}
		}
	}
	return all
}

// pictured are the networks of docs/map.svg.
var pictured = map[string]string{
	"10-web.conflist": `{"cniVersion": "1.0.0", "name": "web", "plugins": [{"type": "bridge", "bridge": "br-web", "isGateway": true, "ipMasq": true,
		"ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.30.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
		{"type": "portmap", "snat": true, "capabilities": {"portMappings": true}}]}`,
	"20-storage.conflist": `{"cniVersion": "1.0.0", "name": "storage", "plugins": [{"type": "bridge", "bridge": "br-storage", "isGateway": true,
		"ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.31.7.0/29"}], [{"subnet": "fd00:31:7::/64"}]]}}]}`,
	"30-vlan100.conflist": `{"cniVersion": "1.0.0", "name": "vlan100", "plugins": [{"type": "macvlan", "master": "uplink",
		"ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.32.0.0/16"}]]}}]}`,
	"40-backup.conflist": `{"cniVersion": "1.0.0", "name": "backup", "plugins": [{"type": "bridge", "bridge": "br-backup",
		"ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.33.0.0/24"}]]}}]}`,
}

// TestMapPicture: docs/map.svg is what the command draws of a host with these networks and the
// allocations of Nomad jobs. ALLOCNET_WRITE_GOLDEN=1 writes the file.
func TestMapPicture(t *testing.T) {
	h := newHost(t)
	leases := t.TempDir()
	h.conf = t.TempDir()
	for name, text := range pictured {
		sandbox.WriteFile(t, filepath.Join(h.conf, name), fmt.Sprintf(text, leases))
	}
	t.Cleanup(func() {
		sandbox.Run(t, "ip", "link", "delete", "br-web")
		sandbox.Run(t, "ip", "link", "delete", "br-storage")
	})
	e := h.engine(nil)
	elements := func(names ...string) []selection.Element {
		var all []selection.Element
		for _, name := range names {
			all = append(all, selection.Element{Name: name})
		}
		return all
	}
	ids := []string{"0d3c8f7e-52b1-4d0e-9a57-3f6a1f0c9b21", "5c2e9a0e-7a3c-4f5e-8a8e-0d4f9c1b2a33", "b81f40a2-6c1d-4be4-b0a7-94d0c2f3e517"}
	for i, r := range []hook.Request{
		{Identity: policy.Identity{Namespace: "default", Job: "shop", Group: "frontend"}, Networks: elements("storage"), Ports: []portmap.Port{{Label: "http", HostPort: 8080, To: 80, Protocol: "tcp"}}},
		{Identity: policy.Identity{Namespace: "default", Job: "shop", Group: "database"}, Networks: elements("storage", "vlan100")},
		{Identity: policy.Identity{Namespace: "batch", Job: "nightly-report", Group: "report"}, Networks: elements("storage")},
	} {
		r.ID, r.Primary = ids[i], &elements("web")[0]
		if _, err := e.Setup(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.must("detach", r.ID) })
	}
	sandbox.Run(t, "ip", "-n", ids[2], "link", "set", "net1", "down")
	cmd := h.command("map", "--format", "svg")
	cmd.Args = append([]string{"unshare", "--uts", "sh", "-c", `hostname node-7; exec "$@"`, "sh", binary}, cmd.Args[1:]...)
	cmd.Path, _ = exec.LookPath("unshare")
	drawn, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	const file = "../docs/map.svg"
	if os.Getenv("ALLOCNET_WRITE_GOLDEN") != "" {
		if err := os.WriteFile(file, drawn, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(read(t, file), string(drawn)); diff != "" {
		t.Errorf("%s is not what the command draws; to write it: make map\n%s", file, diff)
	}
}
