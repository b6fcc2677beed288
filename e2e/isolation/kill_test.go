// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"fmt"
	"os/exec"
	"testing"
	"time"
)

// TestKilled: an attach or a detach that is killed at any instant leaves nothing after the next detach, and GC removes what is left where
// that never comes.
func TestKilled(t *testing.T) {
	h := newHost(t)
	kill := func(after time.Duration, args ...string) {
		cmd := exec.Command(binary, args...)
		cmd.Env = h.environ()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // killed, or done before
	}
	for i := range 8 {
		id, after := fmt.Sprint("killed-", i), time.Duration(10+8*i)*time.Millisecond
		kill(after, "attach", "--primary", "strict", id)
		if i%2 == 0 {
			h.must("attach", "--primary", "strict", id)
			kill(after, "detach", id)
		}
		if i%4 < 2 {
			h.must("detach", id)
		}
	}
	h.must("gc")
	for i := range 8 {
		h.must("detach", fmt.Sprint("killed-", i))
	}
}
