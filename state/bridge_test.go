// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAcceptRA: what a bridge had is known until it is restored, and no bridge of this boot has what an earlier one left.
func TestAcceptRA(t *testing.T) {
	s := open(t)
	want := func(acceptRA string) {
		t.Helper()
		if got, err := s.Bridges().AcceptRA("br0"); got != acceptRA || err != nil {
			t.Errorf("accept_ra was %q, %v: want %q", got, err, acceptRA)
		}
	}
	want("")
	must(t, s.Bridges().SetAcceptRA("br0", "2"))
	want("2")
	must(t, s.Bridges().SetAcceptRA("br0", ""))
	want("")
	for _, old := range []string{"", "another 2"} {
		must(t, os.WriteFile(filepath.Join(s.dir, bridgeLock, "br0"), []byte(old), 0o600))
		want("")
	}
	must(t, os.Remove(filepath.Join(s.dir, bridgeLock, "br0")))
	must(t, os.Symlink("/dev/null", filepath.Join(s.dir, bridgeLock, "br0")))
	if _, err := s.Bridges().AcceptRA("br0"); err == nil {
		t.Error("a link is followed")
	}
	for _, name := range []string{"", ".", "..", "../boot"} {
		if err := s.Bridges().SetAcceptRA(name, "2"); err == nil {
			t.Errorf("a bridge named %q", name)
		}
	}
}
