// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/version"
)

// requireProblems compares the findings with parts of them, in order.
func requireProblems(t *testing.T, r *Report, want ...string) {
	t.Helper()
	if len(r.Findings) != len(want) {
		t.Errorf("findings %+v, want %q", r.Findings, want)
		return
	}
	for i, f := range r.Findings {
		if text := string(f.Severity) + " " + f.Subject + ": " + f.Problem; !strings.Contains(text, want[i]) {
			t.Errorf("finding %q, want %q", text, want[i])
		}
	}
}

// TestNoPlugins: one finding, and not one for each plugin of each network.
func TestNoPlugins(t *testing.T) {
	empty, missing := t.TempDir(), filepath.Join(t.TempDir(), "missing")
	if err := os.WriteFile(filepath.Join(empty, "README"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := &Report{}
	(&Doctor{PluginDirs: []string{empty, missing}}).plugins(t.Context(), r, load(t, published))
	requireProblems(t, r, "error "+empty+" "+missing+": there are no CNI plugins")

	r = &Report{}
	inProcess := func(*cniconf.Network) error { return nil }
	(&Doctor{PluginDirs: []string{empty, missing}, WhyPlugins: inProcess}).plugins(t.Context(), r, load(t, published))
	requireProblems(t, r)

	r = &Report{}
	mistaken := func(*cniconf.Network) error { return errors.New(`unknown field "isGatewy"`) }
	(&Doctor{PluginDirs: []string{empty, missing}, WhyPlugins: mistaken}).plugins(t.Context(), r, load(t, published))
	requireProblems(t, r, `: unknown field "isGatewy"`)
}

func TestVersionSkew(t *testing.T) {
	for name, test := range map[string]struct {
		script, want string
	}{
		"this release": {"echo 'CNI allocnet-cni plugin v" + version.Version + "' >&2", ""},
		"another":      {"[ -z \"$CNI_COMMAND\" ] && echo 'CNI allocnet-cni plugin v0.0.9' >&2", "has version 0.0.9, and this program " + version.Version},
		"no version":   {"exit 3", "does not say its version (exit status 3)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CNI_COMMAND", "ADD")
			dir := t.TempDir()
			script(t, filepath.Join(dir, cniconf.OwnPlugin), test.script)
			r := &Report{}
			versionSkew(t.Context(), r, []string{t.TempDir(), dir})
			if test.want == "" {
				requireProblems(t, r)
			} else {
				requireProblems(t, r, filepath.Join(dir, cniconf.OwnPlugin)+": "+test.want)
			}
		})
	}
}

func TestNoNetworks(t *testing.T) {
	dir := t.TempDir()
	d := &Doctor{ConfDirs: []string{dir}, PolicyFile: filepath.Join(dir, "none")}
	r := &Report{}
	d.networks(r)
	requireProblems(t, r, "warning "+dir+": there are no network configurations")
	if err := os.WriteFile(filepath.Join(dir, "a.conflist"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	r = &Report{}
	d.networks(r)
	requireProblems(t, r, "a.conflist:1:1")
}

// TestUnread: a conflist for jobs is in the directory that Nomad reads.
func TestUnread(t *testing.T) {
	own, read := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		own + "/00.conflist":  `{"cniVersion": "1.0.0", "name": "multi", "plugins": [{"type": "allocnet-cni"}]}`,
		own + "/10.conflist":  `{"cniVersion": "1.0.0", "name": "web", "plugins": [{"type": "bridge"}]}`,
		read + "/00.conflist": `{"cniVersion": "1.0.0", "name": "other", "plugins": [{"type": "allocnet-cni"}]}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for nomad, want := range map[string][]string{
		"":         nil,
		read + "/": {"error " + own + "/00.conflist: Nomad does not read this directory, but " + read},
	} {
		r := &Report{}
		(&Doctor{ConfDirs: []string{own, read}, NomadConfDir: nomad, PolicyFile: filepath.Join(own, "none")}).networks(r)
		requireProblems(t, r, want...)
	}
}
