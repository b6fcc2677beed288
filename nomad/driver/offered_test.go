// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/nomad/driver/proto"
)

// inRefusedDir returns settings whose state directory others can write to, with
// a link to another file in place of offered.json.
func inRefusedDir(t *testing.T) (s *settings, target string) {
	t.Helper()
	dir := t.TempDir()
	target = filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte(`["driver.allocnet.network.x"]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(dir, offeredFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	s = newSettings(hook.Config{StateDir: dir, ConfDirs: []string{t.TempDir()}}, hclog.NewNullLogger())
	s.configure(nil)
	return s, target
}

// TestRefusedStateDirectory: in a state directory that the engine refused
// nothing is written or read.
func TestRefusedStateDirectory(t *testing.T) {
	s, target := inRefusedDir(t)
	if _, err := s.ready(); err == nil {
		t.Fatal("the directory was accepted")
	}
	if last := s.offered(); len(last.Attributes) != 0 {
		t.Errorf("read through a link: %v", last)
	}
	s.saveOffered(s.fingerprint())
	if data, err := os.ReadFile(target); err != nil || string(data) != `["driver.allocnet.network.x"]` {
		t.Errorf("the target of the link: %s, %v", data, err)
	}
	files, err := os.ReadDir(s.config.StateDir)
	if err != nil || len(files) != 1 {
		t.Errorf("the directory has %v, %v, want the link alone", files, err)
	}
}

// TestOfferedReplacesALink: in an accepted directory a link is replaced, not
// followed.
func TestOfferedReplacesALink(t *testing.T) {
	s, target := inRefusedDir(t)
	if err := os.Chmod(s.config.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.configure(nil)
	if last := s.offered(); len(last.Attributes) != 0 {
		t.Errorf("read through a link: %v", last)
	}
	name := prefix + ".network.storage"
	s.saveOffered(&proto.FingerprintResponse{Attributes: map[string]*proto.Attribute{name: text("1")}})
	if data, err := os.ReadFile(target); err != nil || string(data) != `["driver.allocnet.network.x"]` {
		t.Errorf("the target of the link: %s, %v", data, err)
	}
	if _, ok := s.offered().Attributes[name]; !ok {
		t.Error("what was offered is not remembered")
	}
}
