// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestLeftovers: ADD of an allocation that was set up before, in a new namespace and without a DEL. Nothing is
// there twice, and DEL, which has no arguments, removes everything.
func TestLeftovers(t *testing.T) {
	h := newHost(t, newest())
	a := h.one(group("again", extra))
	for _, lost := range []string{"/var/lib/cni/results/none", "/var/lib/cni/results/multi-" + a.ID + "-eth0"} {
		sandbox.Run(t, "rm", "-f", lost)
		if err := netns.Remove("/run/netns/" + a.ID); err != nil {
			t.Fatal(err)
		}
		h.restart() // ADD: the namespace is new
		h.requireNetworks(a, "eth0=web net1=storage net2=mgmt")
		h.requireLeases(a.ID, 3)
	}
	h.stop(a)
}

// TestForcedCleanup: after a DEL that fails, Nomad removes a rule of the network "nomad", and of no other.
func TestForcedCleanup(t *testing.T) {
	for network, left := range map[string]bool{"nomad": false, "other": true} {
		t.Run(network, func(t *testing.T) {
			h := newHost(t, newest())
			fakecni.Install(t, plugins)
			t.Cleanup(func() { _ = os.Remove(plugins + "/" + fakecni.Type) })
			h.write(confDir+"/47-masqueraded.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "plugins": [
				{"type": "ptp", "ipMasq": true, "ipam": {"type": "host-local", "subnet": "10.78.0.0/24", "dataDir": %q}},
				{"type": "fakecni", "fake": {"verbs": {"DEL": {"code": 7, "msg": "cannot", "failTimes": 1, "counter": %q}}}}]}`, network, t.TempDir(), t.TempDir()+"/count"))
			g := group("masqueraded", nil)
			g.Networks[0].Mode = "cni/" + network
			a := h.one(g)
			h.client.Stop(a)
			rule := regexp.MustCompile(`(?m)^-A POSTROUTING .*` + a.ID + `.* -j (\S+)$`).FindStringSubmatch(sandbox.Run(t, "iptables", "-t", "nat", "-S"))
			if (rule != nil) != left {
				t.Errorf("the rule is left: %q, want %t", rule, left)
			}
			if rule != nil {
				sandbox.Run(t, "sh", "-c", "iptables -t nat "+strings.Replace(rule[0], "-A", "-D", 1))
				sandbox.Run(t, "iptables", "-t", "nat", "-F", rule[1])
				sandbox.Run(t, "iptables", "-t", "nat", "-X", rule[1])
			}
			h.client.Stop(a) // the second DEL removes the rest, but not the rules of a namespace that is gone
		})
	}
}

// TestFailedDEL: Nomad ignores that DEL fails, destroys the namespace, and never calls DEL again. The record
// remains, and detach removes the rest.
func TestFailedDEL(t *testing.T) {
	h := newHost(t, newest())
	fakecni.Install(t, plugins)
	t.Cleanup(func() { _ = os.Remove(plugins + "/" + fakecni.Type) })
	counter := t.TempDir() + "/count"
	h.write(confDir+"/47-stuck.conflist", `{"cniVersion": "1.0.0", "name": "stuck", "plugins": [{"type": "fakecni", "fake": {"verbs": {"DEL": {"code": 7, "msg": "cannot", "failTimes": 1, "counter": "`+counter+`"}}}}]}`)
	a := h.one(group("stuck", args{"networks": "stuck,storage"}))
	h.client.Stop(a)
	if a.Leaked == nil || !strings.Contains(a.Leaked.Error(), "cannot") {
		t.Errorf("DEL: %v, want the error of the plugin", a.Leaked)
	}
	if _, err := os.Stat("/run/netns/" + a.ID); !os.IsNotExist(err) {
		t.Errorf("the namespace: %v", err)
	}
	h.allocnet("detach", a.ID)
	h.forget(a)
}

// TestInterfaceIndex: an address whose interface is not in the result makes go-cni, and with it the Nomad agent,
// panic. allocnet returns none, whatever a network's plugin says.
func TestInterfaceIndex(t *testing.T) {
	h := newHost(t, newest())
	fakecni.Install(t, plugins)
	t.Cleanup(func() { _ = os.Remove(plugins + "/" + fakecni.Type) })
	h.write(confDir+"/48-index.conflist", `{"cniVersion": "1.0.0", "name": "index", "plugins": [{"type": "fakecni", "fake": {"verbs": {"ADD":
		{"output": "{\"cniVersion\": \"1.0.0\", \"interfaces\": [{\"name\": \"eth0\", \"sandbox\": \"/x\"}], \"ips\": [{\"address\": \"10.0.0.2/24\", \"interface\": 1}]}"}}}}]}`)
	h.allocnet("conf", "generate", "index", "--name", "indexed", "--conf-dir", confDir, "--plugin-dir", plugins+":"+sandbox.PluginDir(), "--out", confDir+"/01-indexed.conflist")
	g := group("index", nil)
	g.Networks[0].Mode, g.Networks[0].Ports = "cni/indexed", nil
	if got := h.refuse(g); !strings.Contains(got, "interface") {
		t.Errorf("the error does not say what is wrong: %s", got)
	}
	if got := h.refuse(group("index", args{"networks": "index"})); !strings.Contains(got, "interface") {
		t.Errorf("the error does not say what is wrong: %s", got)
	}
}
