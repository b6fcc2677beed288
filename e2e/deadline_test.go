// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/lab"
)

// TestHungDEL: forced cleanup has time of its own, and the call succeeds because
// nothing is left. The plugin that hangs is of the catalogue.
func TestHungDEL(t *testing.T) {
	h := newHost(t)
	own := t.TempDir()
	fakecni.InstallAs(t, own, "sbr")
	lab.WriteFile(t, h.conf+"/90-stuck.conflist", `{"cniVersion": "1.0.0", "name": "stuck", "plugins": [
		{"type": "bridge", "bridge": "storage0", "ipMasq": true, "ipam": {"type": "host-local", "subnet": "10.93.0.0/16"}},
		{"type": "sbr", "fake": {"verbs": {"DEL": {"hang": true}}}}]}`)
	r := h.runtime("1.0.0", fmt.Sprintf(`"primary": "web", "timeout": "10s", "pluginDir": %q`, own+":"+lab.PluginDir()))
	c := h.container("c1", "networks=stuck")
	r.add(c)
	c.Args = nil // Nomad passes none at DEL
	r.del(c)
	lab.RequireNoPlugins(t)
	if err := os.RemoveAll("/var/lib/cni/networks/stuck"); err != nil {
		t.Error(err)
	}
}

// TestHungPlugin ends STATUS and GC of networks that do not answer.
func TestHungPlugin(t *testing.T) {
	h := newHost(t)
	lab.WriteFile(t, h.conf+"/98-hung.conf", `{"cniVersion": "1.1.0", "name": "hung", "type": "fakecni", "fake": {"verbs": {"STATUS": {"hang": true}, "GC": {"hang": true}}}}`)
	r := h.runtime("1.1.0", `"primary": "hung", "timeout": "5s"`)
	requireCode(t, r.cni.GetStatusNetworkList(context.Background(), r.list), types.ErrPluginNotAvailable, "hung", "did not answer STATUS")
	requireCode(t, r.cni.GCNetworkList(context.Background(), r.list, &libcni.GCArgs{}), types.ErrTryAgainLater, "hung", "did not answer GC")
	lab.RequireNoPlugins(t)
}
