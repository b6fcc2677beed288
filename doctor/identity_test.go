// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/allocnet/allocnet/nomad"
)

// TestUnreadJobs: with a Nomad whose jobs have no CNI arguments, a conflist requires an agent that
// reads their networks.
func TestUnreadJobs(t *testing.T) {
	dir := t.TempDir()
	for name, keys := range map[string]string{
		"a": `"type": "allocnet-cni"`, "b": `"type": "allocnet-cni", "agent": {"mode": "require"}`,
		"c": `"type": "allocnet-cni", "agent": {"mode": "require", "jobNetworks": true}`, "d": `"type": "bridge"`,
	} {
		writeConflist(t, dir, name, keys)
	}
	found := []string{
		"warning " + dir + "/a.conflist: in Nomad 1.6.2 a job selects networks by meta",
		"warning " + dir + "/b.conflist: in Nomad 1.6.2 a job selects networks by meta",
	}
	for version, want := range map[nomad.Version][]string{{1, 6, 2}: found, {1, 9, 4}: nil, {}: nil} {
		r := &Report{}
		(&Doctor{ConfDirs: []string{dir}, NomadVersion: version, PolicyFile: filepath.Join(dir, "none")}).networks(r)
		requireProblems(t, r, want...)
	}
}

// TestUnlisted: a conflist has the directories in which the host has networks.
func TestUnlisted(t *testing.T) {
	own, nomad := t.TempDir(), t.TempDir()
	writeConflist(t, own, "ruled", `"type": "bridge"`)
	writeConflist(t, nomad, "web", `"type": "bridge"`)
	for name, dirs := range map[string]string{"old": nomad, "new": own + "/:" + nomad, "default": ""} {
		writeConflist(t, nomad, name, `"type": "allocnet-cni", "confDir": "`+dirs+`"`)
	}
	r := &Report{}
	(&Doctor{ConfDirs: []string{own, nomad}, PolicyFile: filepath.Join(own, "none")}).networks(r)
	requireProblems(t, r, "warning "+nomad+"/old.conflist: its confDir is "+nomad+`: jobs with mode = "cni/old" do not have the networks of other directories, nor their rules: ruled`)
}

// writeConflist writes a conflist with one plugin.
func writeConflist(t *testing.T, dir, name, keys string) {
	t.Helper()
	text := `{"cniVersion": "1.0.0", "name": "` + name + `", "plugins": [{` + keys + `}]}`
	if err := os.WriteFile(filepath.Join(dir, name+".conflist"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestForgeable: with a Nomad whose jobs can set their identity, allocnet-cni accepts none.
func TestForgeable(t *testing.T) {
	dir := t.TempDir()
	for name, keys := range map[string]string{"a": `"type": "allocnet-cni"`, "b": `"type": "allocnet-cni", "identity": "nomad"`, "c": `"type": "allocnet-cni", "identity": "unknown"`, "d": `"type": "bridge"`} {
		writeConflist(t, dir, name, keys)
	}
	found := []string{
		"error " + dir + "/a.conflist: in Nomad 1.8.4 a job can set the namespace",
		"error " + dir + "/b.conflist: in Nomad 1.8.4 a job can set the namespace",
	}
	for version, want := range map[nomad.Version][]string{{1, 8, 4}: found, {1, 9, 4}: nil, {}: nil} {
		r := &Report{}
		(&Doctor{ConfDirs: []string{dir}, NomadVersion: version, PolicyFile: filepath.Join(dir, "none")}).networks(r)
		requireProblems(t, r, want...)
	}
}
