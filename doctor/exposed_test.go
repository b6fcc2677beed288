// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/policy"
)

// TestFindExposed: what Nomad offers itself and has rules.
func TestFindExposed(t *testing.T) {
	closed, nomad := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		closed + "/a.conf":      `{"cniVersion": "1.0.0", "name": "a", "type": "bridge", "allocnet": {"namespaces": ["prod"]}}`,
		closed + "/b.conf":      `{"cniVersion": "1.0.0", "name": "b", "type": "bridge", "allocnet": {"jobs": ["x"]}}`,
		nomad + "/00.conflist":  `{"cniVersion": "1.0.0", "name": "multi", "plugins": [{"type": "allocnet-cni"}], "allocnet": {"namespaces": []}}`,
		nomad + "/b.conf":       `{"cniVersion": "1.0.0", "name": "b", "type": "bridge"}`,
		nomad + "/c.conf":       `{"cniVersion": "1.0.0", "name": "c", "type": "bridge", "allocnet": {"staticIPs": false}}`,
		nomad + "/d.conf":       `{"cniVersion": "1.0.0", "name": "d", "type": "bridge", "allocnet": {"hostPorts": ["80"], "staticIPs": true}}`,
		nomad + "/mistake.conf": `{"cniVersion": "1.0.0", "name": "mistake", "type": "bridge", "allocnet": {"namespace": "prod"}}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	catalog, err := cniconf.Load(closed, nomad)
	if err != nil {
		t.Fatal(err)
	}
	restricted := 1
	for name, test := range map[string]struct {
		dir  string
		host policy.Rules
		want []string
	}{
		"rules of the networks": {nomad, policy.Rules{}, []string{"b in b.conf", "c in c.conf", "mistake in mistake.conf"}},
		"rules of the host":     {nomad, policy.Rules{MaxAttachments: &restricted}, []string{"b in b.conf", "c in c.conf", "d in policy", "mistake in mistake.conf"}},
		"no directory":          {nomad + "/none", policy.Rules{}, nil},
	} {
		found, err := FindExposed(test.dir, catalog, policy.Source{File: "/policy", Rules: test.host})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range found {
			got = append(got, e.Network+" in "+filepath.Base(e.Rules))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestExposedSeverity: that Nomad reads the directory is known only if an
// operator said so.
func TestExposedSeverity(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/a.conf", []byte(`{"cniVersion": "1.0.0", "name": "a", "type": "bridge", "allocnet": {"namespaces": ["prod"]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	catalog, err := cniconf.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for nomadDir, want := range map[string]Severity{"": Warning, dir: Error} {
		r := &Report{}
		(&Doctor{ConfDirs: []string{"/elsewhere", dir}, NomadConfDir: nomadDir, PolicyFile: dir + "/none"}).exposed(r, catalog)
		if len(r.Findings) != 1 || r.Findings[0].Severity != want || r.Findings[0].Subject != dir+"/a.conf" {
			t.Errorf("%q: %+v, want one finding, %s", nomadDir, r.Findings, want)
		}
	}
}
