// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestHungDEL: forced cleanup has a deadline of its own, and the call succeeds because
// nothing is left. The plugin that hangs is in the catalogue.
func TestHungDEL(t *testing.T) {
	h := newHost(t)
	own := t.TempDir()
	fakecni.InstallAs(t, own, "vrf")
	sandbox.WriteFile(t, h.conf+"/90-stuck.conflist", `{"cniVersion": "1.0.0", "name": "stuck", "plugins": [
		{"type": "bridge", "bridge": "storage0", "ipMasq": true, "ipam": {"type": "host-local", "subnet": "10.93.0.0/16"}},
		{"type": "vrf", "fake": {"verbs": {"DEL": {"hang": true}}}}]}`)
	r := h.runtime("1.0.0", fmt.Sprintf(`"primary": "web", "timeout": "10s", "pluginDir": %q`, own+":"+sandbox.PluginDir()))
	c := h.container("c1", "networks=stuck")
	r.add(c)
	c.Args = nil // Nomad passes none at DEL
	r.del(c)
	sandbox.RequireNoPlugins(t)
	if err := os.RemoveAll("/var/lib/cni/networks/stuck"); err != nil {
		t.Error(err)
	}
}

// TestSlowADD: a slow ADD delays neither GC nor another ADD.
func TestSlowADD(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	h.fake("slow", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"ADD": {Mark: dir + "/begun", Await: dir + "/go"}}})
	sandbox.WriteFile(t, h.conf+"/98-collects.conf", `{"cniVersion": "1.1.0", "name": "collects", "type": "fakecni", "fake": {}}`)
	slow := h.command("attach", "slow", "--primary", "slow")
	if err := slow.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, dir+"/begun")
	if out := h.must("gc", "--json"); !strings.Contains(out, "attachments are in flight") {
		t.Errorf("gc does not say why it did not collect:\n%s", out)
	}
	h.attach("other", "--primary", "storage")
	sandbox.WriteFile(t, dir+"/go", "")
	if err := slow.Wait(); err != nil {
		t.Error(err)
	}
	for _, id := range []string{"slow", "other"} {
		h.must("detach", id)
	}
}

// TestLongHungCHECK: CHECK passes if a plugin hangs, because that is no evidence of damage.
func TestLongHungCHECK(t *testing.T) {
	h := newHost(t)
	h.fake("hung", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"CHECK": {Hang: true}}})
	r := h.runtime("1.0.0", `"primary": "storage", "timeout": "8s"`)
	c := h.container("c1", "networks=hung")
	r.add(c)
	if err := r.check(c); err != nil {
		t.Error(err)
	}
	if left := sandbox.PluginProcesses(); left != nil {
		t.Errorf("processes are left: %v", left)
	}
	sandbox.Run(t, "ip", "-n", "c1", "link", "set", "eth0", "down")
	h.refuse(1, []string{"did not answer CHECK", "interface eth0 is down"}, "check", "c1", "--call-timeout", "1s")
	if err := r.check(c); err != nil {
		t.Errorf("CHECK of a link that is down, which it can set up: %v", err)
	}
	if out := sandbox.Run(t, "ip", "-n", "c1", "link", "show", "eth0"); !strings.Contains(out, ",UP") {
		t.Errorf("CHECK has repaired nothing:\n%s", out)
	}
	sandbox.Run(t, "ip", "-n", "c1", "link", "del", "eth0")
	if err := r.check(c); err == nil || !strings.Contains(err.Error(), "eth0") {
		t.Errorf("CHECK of a link that is gone: %v", err)
	}
	r.del(c)
}

// TestLongHungPlugin: STATUS and GC return although the plugins of a network hang.
func TestLongHungPlugin(t *testing.T) {
	h := newHost(t)
	sandbox.WriteFile(t, h.conf+"/98-hung.conf", `{"cniVersion": "1.1.0", "name": "hung", "type": "fakecni", "fake": {"verbs": {"STATUS": {"hang": true}, "GC": {"hang": true}}}}`)
	r := h.runtime("1.1.0", `"primary": "hung", "timeout": "5s"`)
	requireCode(t, r.cni.GetStatusNetworkList(context.Background(), r.list), types.ErrPluginNotAvailable, "hung", "did not answer STATUS")
	c := h.container("alive")
	r.add(c)
	alive := &libcni.GCArgs{ValidAttachments: []types.GCAttachment{{ContainerID: c.ContainerID, IfName: c.IfName}}}
	requireCode(t, r.cni.GCNetworkList(context.Background(), r.list, alive), types.ErrTryAgainLater, "hung", "did not answer GC")
	if err := r.cni.DelNetworkList(context.Background(), r.list, c); err != nil {
		t.Error(err)
	}
	sandbox.RequireNoPlugins(t)
}
