// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// created is a host on which the network made was created with flags.
func created(t *testing.T, flags ...string) *host {
	t.Helper()
	h := newHost(t)
	h.must(append([]string{"network", "create", "made", "--subnet", "10.42.7.0/24"}, flags...)...)
	t.Cleanup(func() {
		_ = exec.Command("ip", "link", "delete", "made0").Run() // the test may have removed it
		_ = os.RemoveAll("/var/lib/cni/networks/made")
	})
	return h
}

func hasLink(name string) bool { return exec.Command("ip", "link", "show", name).Run() == nil }

// TestCreatedNetwork: a network from a few words works, and with it goes all that it has made.
func TestCreatedNetwork(t *testing.T) {
	h := created(t, "--range", "10.42.7.100-10.42.7.199")
	if info, err := os.Stat(h.conf + "/made.conflist"); err != nil || info.Mode() != 0o644 {
		t.Fatalf("the file: %v, %v", info, err)
	}
	a := h.attach("m1", "--networks", "made")
	if address := a.Attachments[0].Addresses[0].String(); address != "10.42.7.100/24" {
		t.Errorf("address %s, want the first of the range", address)
	}
	h.refuse(2, []string{`network "made" is in use`, "allocation m1"}, "network", "rm", "made")
	h.must("detach", "m1")
	if sandbox.Executor() == "plugins" {
		if out := h.must("network", "rm", "made"); !strings.Contains(out, "stays: bridge made0: allocnet has not made it") {
			t.Errorf("of the bridge of a plugin: %s", out)
		}
		return
	}
	sandbox.Run(t, "ip", "link", "add", "foreign", "type", "veth", "peer", "name", "foreign1")
	sandbox.Run(t, "ip", "link", "set", "foreign", "master", "made0")
	if out := h.must("network", "rm", "made", "--dry-run"); !strings.Contains(out, "stays: bridge made0: it has the port foreign") || !hasLink("made0") {
		t.Errorf("with a port of another program: %s", out)
	}
	sandbox.Run(t, "ip", "link", "delete", "foreign")
	if out := h.must("network", "rm", "made"); !strings.Contains(out, "removed: bridge made0") {
		t.Error(out)
	}
	for _, path := range []string{h.conf + "/made.conflist", "/var/lib/cni/networks/made", "/sys/class/net/made0"} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
	h.refuse(2, []string{`unknown network "made"`}, "network", "rm", "made")
}

// TestNetworkIsNotCreated where it would take something from another network or from the host.
func TestNetworkIsNotCreated(t *testing.T) {
	h := created(t)
	sandbox.Run(t, "ip", "link", "add", "lan0", "type", "veth", "peer", "name", "lan1")
	defer sandbox.Run(t, "ip", "link", "delete", "lan0")
	sandbox.Run(t, "ip", "address", "add", "10.43.7.1/24", "dev", "lan0")
	sandbox.Run(t, "ip", "link", "set", "lan0", "up")
	sandbox.Run(t, "ip", "link", "set", "lan1", "up")
	h.refuse(2, []string{"create " + cniconf.OwnDir}, "network", "create", "other", "--conf-dir", cniconf.OwnDir)
	if err := os.MkdirAll(cniconf.OwnDir, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(cniconf.OwnDir)
	sandbox.WriteFile(t, cniconf.OwnDir+"/ruled.conflist", `{"cniVersion": "1.0.0", "name": "ruled", "plugins": [
		{"type": "bridge", "bridge": "ruled0", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.45.0.0/24"}]]}}]}`)
	for want, args := range map[string]string{
		`overlaps 10.45.0.0/24 of network "ruled"`: "other --subnet 10.45.0.0/24", // of a directory that --conf-dir leaves out
		`network "made" is there already`:          "made --subnet 10.44.0.0/24",
		`overlaps 10.42.7.0/24 of network`:         "other --subnet 10.42.0.0/16",
		`bridge made0 is that of network "made"`:   "other --subnet 10.44.0.0/24 --bridge made0",
		"dev lan0":                                 "other --subnet 10.43.7.0/25",
		"this host has a link lan0 already":        "lan",
		"the host has no link none0":               "other --type macvlan --master none0 --subnet 10.44.0.0/24",
		`--vlan "uplink"`:                          "other --vlan uplink --subnet 10.44.0.0/24",
		`--subnet "10.44.0.0"`:                     "other --subnet 10.44.0.0",
		`isolation "full"`:                         "other --isolation full",
		`type "overlay"`:                           "other --type overlay",
	} {
		h.refuse(2, []string{want}, append([]string{"network", "create"}, strings.Fields(args)...)...)
	}
	h.must("network", "create", "other", "--type", "macvlan", "--master", "lan0", "--subnet", "10.43.7.0/24", "--dry-run")
	var shown struct {
		Name  string
		Ready string
	}
	if err := json.Unmarshal([]byte(h.must("network", "inspect", "made", "--json")), &shown); err != nil || shown.Name != "made" || shown.Ready == "no" {
		t.Errorf("inspect: %+v, %v", shown, err)
	}
	sandbox.WriteFile(t, h.conf+"/broken.conflist", "{")
	h.refuse(2, []string{"broken.conflist"}, "network", "create", "other")
}
