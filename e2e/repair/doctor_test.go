// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook"
)

// TestDoctor: doctor says what an allocation lacks, and that another program removes it again and
// again. It changes nothing.
func TestDoctor(t *testing.T) {
	h := newHost(t, hook.ExecutorAuto, "iptables")
	h.attach("one", 8080)
	t.Cleanup(func() { h.detach("one") })
	const lacks, fought = "eth0 on web lacks: ", "eth0 on web was repaired 3 times in the last "
	for repairs := range 3 {
		if out, _ := h.command("doctor"); strings.Contains(out, lacks) || strings.Contains(out, fought) {
			t.Errorf("after %d repairs:\n%s", repairs, out)
		}
		shell(t, "nft flush ruleset")
		for range 2 {
			out, code := h.command("doctor")
			if code != 1 || !strings.Contains(out, lacks) || !strings.Contains(out, "allocnet repair one") {
				t.Errorf("damaged, exit code %d:\n%s", code, out)
			}
		}
		if out, code := h.command("repair"); code != 0 {
			t.Fatal(out)
		}
	}
	if out, _ := h.command("doctor"); strings.Contains(out, lacks) || !strings.Contains(out, fought) || !strings.Contains(out, "allocnet events --allocation one") {
		t.Errorf("after three repairs:\n%s", out)
	}
}
