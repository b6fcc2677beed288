// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"os"
	"path/filepath"
	"testing"
)

// TestIsolationInForce: the rules in force are those of this boot, until nothing is isolated any more; what is torn, or of an earlier boot,
// is none.
func TestIsolationInForce(t *testing.T) {
	s := open(t)
	i := s.Isolation()
	requireInForce := func(want string) {
		t.Helper()
		if got, err := i.InForce(); err != nil || string(got) != want || (got == nil) != (want == "") {
			t.Errorf("in force is %q, %v, want %q", got, err, want)
		}
	}
	requireInForce("")
	must(t, i.SetInForce(nil))
	must(t, i.SetInForce([]byte(`{"a":1}`)))
	requireInForce(`{"a":1}`)
	path := filepath.Join(s.dir, isolationDir, "in-force")
	written, err := os.ReadFile(path)
	must(t, err)
	for _, other := range []string{"", "of another boot\n{}", string(written[:len(written)-1])} {
		must(t, os.WriteFile(path, []byte(other), 0o600))
		requireInForce("")
	}
	must(t, os.WriteFile(path, written, 0o600))
	must(t, i.SetInForce(nil))
	requireInForce("")
}
