// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/allocnet/allocnet/nomad"
)

// TestForgeable: with a Nomad whose jobs can set their identity, allocnet-cni accepts none.
func TestForgeable(t *testing.T) {
	dir := t.TempDir()
	for name, keys := range map[string]string{"a": `"type": "allocnet-cni"`, "b": `"type": "allocnet-cni", "identity": "nomad"`, "c": `"type": "allocnet-cni", "identity": "unknown"`, "d": `"type": "bridge"`} {
		text := `{"cniVersion": "1.0.0", "name": "` + name + `", "plugins": [{` + keys + `}]}`
		if err := os.WriteFile(filepath.Join(dir, name+".conflist"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found := []string{
		"error " + dir + "/a.conflist: in Nomad 1.8.4 a job can set the namespace",
		"error " + dir + "/b.conflist: in Nomad 1.8.4 a job can set the namespace",
	}
	for version, want := range map[nomad.Version][]string{{1, 8, 4}: found, {1, 9, 4}: nil, {1, 6, 2}: nil, {}: nil} {
		r := &Report{}
		(&Doctor{ConfDirs: []string{dir}, NomadVersion: version, PolicyFile: filepath.Join(dir, "none")}).networks(r)
		requireProblems(t, r, want...)
	}
}
