// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/nomad"
)

func writeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestCNI: the agent executes the configured plugin, and that in the plugin directories for other
// builds, or if they are inside of the chroot.
func TestCNI(t *testing.T) {
	root := t.TempDir()
	writeFile(t, root+"/second/allocnet-cni")
	dirs := []string{root + "/first", root + "/second"}
	linked := t.TempDir()
	if err := os.Symlink("/only/in/the/chroot", linked+"/allocnet-cni"); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		config config.Config
		want   *agent.Plugin
	}{
		"configured":         {config.Config{CNI: config.CNI{Plugin: "/p", Chroot: "/host"}, PluginDirs: dirs}, &agent.Plugin{Path: "/p", Executed: true, Chroot: "/host"}},
		"in the directories": {config.Config{PluginDirs: dirs}, &agent.Plugin{Path: root + "/second/allocnet-cni"}},
		"in the chroot":      {config.Config{CNI: config.CNI{Chroot: root}, PluginDirs: []string{"/second"}}, &agent.Plugin{Path: "/second/allocnet-cni", Chroot: root}},
		"a link":             {config.Config{CNI: config.CNI{Chroot: linked}, PluginDirs: []string{"/"}}, &agent.Plugin{Path: "/allocnet-cni", Chroot: linked}},
		"in the host's root": {config.Config{CNI: config.CNI{Plugin: "/p", Chroot: "/"}}, &agent.Plugin{Path: "/p", Executed: true}},
		"nowhere":            {config.Config{PluginDirs: dirs[:1]}, &agent.Plugin{}},
		"not in the chroot":  {config.Config{CNI: config.CNI{Chroot: root}, PluginDirs: []string{"/first"}}, nil},
	} {
		got := newTestDaemon(t, test.config).cni()
		if test.want == nil {
			if got != nil {
				t.Errorf("%s: %+v, want none", name, got)
			}
			continue
		}
		if diff := cmp.Diff(agent.CNI(test.want), got, cmpopts.IgnoreFields(agent.Plugin{}, "Log")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestJobNetworks: the client of Nomad is the source of job networks only if they are
// configured.
func TestJobNetworks(t *testing.T) {
	for _, on := range []bool{false, true} {
		d := newTestDaemon(t, config.Config{CNI: config.CNI{Plugin: "/p"}, Nomad: &config.Nomad{JobNetworks: on}})
		d.nomad = &nomad.Client{}
		p, ok := d.cni().(*agent.Plugin)
		if !ok || (p.JobNetworks != nil) != on {
			t.Errorf("job_networks = %t: %+v", on, p)
		}
	}
}

func TestConflist(t *testing.T) {
	if newTestDaemon(t, config.Config{}).newConflist() != nil {
		t.Error("a conflist without the block multi")
	}
	d := newTestDaemon(t, config.Config{
		ConfDirs: []string{"/etc/allocnet/networks", "/opt/cni/config"}, PluginDirs: []string{"/a", "/b"}, Executor: "plugins",
		Socket: config.Socket{Path: "/run/x.sock"}, Multi: &config.Multi{Name: "multi", Primary: "web", Identity: "unknown", Agent: "require"},
	})
	c := d.newConflist()
	if c.Path != "/opt/cni/config/00-multi.conflist" || c.Multi.Primary != "web" {
		t.Errorf("path %s, primary %s", c.Path, c.Multi.Primary)
	}
	if m := c.Multi; m.PluginDir != "/a:/b" || m.Executor != "plugins" || m.Identity != "unknown" || m.StateDir != d.config.StateDir || m.Agent.Socket != "/run/x.sock" || m.Agent.Mode != "require" {
		t.Errorf("%+v", m)
	}
	if c.Multi.Agent.JobNetworks {
		t.Error("job networks without the block nomad")
	}
	for _, on := range []bool{false, true} {
		if d.config.Nomad = (&config.Nomad{JobNetworks: on}); d.newConflist().Multi.Agent.JobNetworks != on {
			t.Errorf("the conflist does not follow job_networks = %t", on)
		}
	}
	d.config.Multi = &config.Multi{Name: "multi", Source: "/src", Path: "/dst"}
	if c := d.newConflist(); c.Path != "/dst" || c.Source != "/src" || c.Multi.Agent != nil {
		t.Errorf("%+v", c)
	}
}

// TestNotReady lists each reason, until none is left.
func TestNotReady(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ready")
	d := newTestDaemon(t, config.Config{ReadyFile: file, Multi: &config.Multi{Name: "multi", Path: "/dst/multi.conflist"}})
	d.reconciler = d.newReconciler(nil)
	d.conflist = d.newConflist()
	want := []string{"the first round of the reconciler is not complete", file + " does not exist", "/dst/multi.conflist is not written yet"}
	if diff := cmp.Diff(want, d.notReady()); diff != "" {
		t.Error(diff)
	}
	writeFile(t, file)
	d.conflist = nil
	if diff := cmp.Diff(want[:1], d.notReady()); diff != "" {
		t.Error(diff)
	}
}

// TestOutside: an agent with a chroot does not see the files of the host as its own.
func TestOutside(t *testing.T) {
	if err := outside("/host"); err == nil || !strings.Contains(err.Error(), `cni.chroot is "/host"`) {
		t.Errorf("with a chroot: %v", err)
	}
	for _, root := range []string{"", "/"} {
		if err := outside(root); err != nil && strings.Contains(err.Error(), "chroot") {
			t.Errorf("chroot %q: %v", root, err)
		}
	}
}
