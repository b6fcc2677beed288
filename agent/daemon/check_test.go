// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/errdefs"
)

func TestCheckPaths(t *testing.T) {
	dir := t.TempDir()
	full, empty, missing := filepath.Join(dir, "full"), filepath.Join(dir, "empty"), filepath.Join(dir, "missing")
	for path, text := range map[string]string{full: "x", empty: ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	networks := filepath.Join(dir, "networks")
	if err := os.Mkdir(networks, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(networks, "web.conflist"), []byte(`{"cniVersion": "1.0.0", "name": "web", "plugins": [{"type": "bridge"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	gone := missing + " does not exist: create it, or correct the path"
	for name, test := range map[string]struct {
		config config.Config
		want   []string
	}{
		"all there": {config.Config{
			ConfDirs: []string{dir}, PluginDirs: []string{missing, dir}, Nomad: &config.Nomad{TokenFile: full, CAFile: full, CertFile: full, KeyFile: full},
			Multi: &config.Multi{Source: full, Path: missing}, CNI: config.CNI{Plugin: "full", Chroot: dir},
		}, nil},
		"defaults": {config.Config{Nomad: &config.Nomad{}, ConfDirs: []string{networks}, Multi: &config.Multi{Primary: "web"}}, nil},
		"all missing": {config.Config{
			ConfDirs: []string{dir, missing}, PluginDirs: []string{missing}, Nomad: &config.Nomad{TokenFile: missing, CAFile: missing, CertFile: missing, KeyFile: missing},
			Multi: &config.Multi{Source: missing, Path: missing + "/00-multi.conflist"}, CNI: config.CNI{Plugin: "x", Chroot: missing},
		}, []string{
			"conf_dir: " + gone, "plugin_dirs: " + missing + " does not exist, and no other of the directories does", "cni: chroot: " + gone,
			"cni: plugin: " + missing + "/x does not exist", "nomad: token_file: " + gone, "nomad: ca_file: " + gone, "nomad: cert_file: " + gone,
			"nomad: key_file: " + gone, "multi: source: " + gone, "multi: path: " + gone,
		}},
		"other kinds of files": {config.Config{ConfDirs: []string{full}, Nomad: &config.Nomad{TokenFile: empty, CAFile: dir}}, []string{
			"conf_dir: " + full + " is no directory", "nomad: token_file: " + empty + " is empty", "nomad: ca_file: " + dir + " is no regular file",
		}},
		"address of Nomad": {config.Config{Nomad: &config.Nomad{Address: "ftp://127.0.0.1"}}, []string{
			`nomad address "ftp://127.0.0.1": want one such as http://127.0.0.1:4646`,
		}},
		"unknown main network": {config.Config{ConfDirs: []string{networks}, Multi: &config.Multi{Primary: "wbe"}}, []string{
			`multi: primary: unknown network "wbe": ` + networks + " offers web",
		}},
		"hook noop": {config.Config{Hook: hook.NoOp, ConfDirs: []string{missing}, PluginDirs: []string{missing}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckPaths(test.config)
			if (err != nil) != (test.want != nil) {
				t.Fatalf("%v, want %q", err, test.want)
			}
			if err == nil {
				return
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(test.want) || errdefs.Of(err) != errdefs.Refused {
				t.Fatalf("%v, want %q", err, test.want)
			}
			for i, want := range test.want {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("%q, want %q", lines[i], want)
				}
			}
		})
	}
}
