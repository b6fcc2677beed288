// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package systemd

import (
	"slices"
	"strings"
	"testing"
)

// Scripts that replace systemd's programs: their directory comes first in PATH.
const (
	killsParent = "kill -9 $PPID"
	// notYet does not request the unit from systemd while /run/hold exists.
	notYet    = "touch /run/begun; while [ -e /run/hold ]; do sleep 0.05; done; exit 1"
	noSystemd = "echo 'Failed to connect to bus' >&2; exit 1"
)

// instead returns a command line whose PATH has a script in place of a program.
func (m *machine) instead(program, script string, words ...string) []string {
	m.Helper()
	dir := "/root/instead-of-" + program
	m.write(dir+"/"+program, "#!/bin/sh\n"+script+"\n")
	m.must("chmod", "755", dir+"/"+program)
	return append([]string{"env", "PATH=" + dir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, words...)
}

// TestLongKilledSystemdRun: `allocnet systemd-run` is killed after the networks are attached
// and before it requests the unit. GC removes the allocation, unless systemd-run is
// still to request the unit, or systemd cannot be asked.
func TestLongKilledSystemdRun(t *testing.T) {
	m := newMachine(t)
	before := m.warm()
	m.must("systemctl", "stop", "allocnet.socket", "allocnet.service") // the rounds of the agent tear down, too
	run := []string{"allocnet", "systemd-run", "--unit", "killed", "--primary", "web", "--publish", "8080:80", "--", "true"}
	kill := func() {
		t.Helper()
		if out, code := m.exitCode(m.instead("systemd-run", killsParent, run...)...); code == 0 {
			t.Fatalf("it was not killed: %s", out)
		}
		if out := m.must("allocnet", "status", "killed"); !strings.Contains(out, "attached") {
			t.Fatalf("nothing is attached: %s", out)
		}
	}
	kill()
	if out, code := m.exitCode(m.instead("systemctl", noSystemd, "allocnet", "gc")...); code != 1 || !strings.Contains(out, "ask systemd for unit killed.service") {
		t.Errorf("gc without systemd: %d %s", code, out)
	}
	m.must("allocnet", "check", "killed")

	m.write("/run/hold", "")
	starting := slices.Clone(run)
	starting[3] = "starting"
	starting[7] = "8081:80"
	words := m.instead("systemd-run", notYet, starting...)
	cmd := m.command(words...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.await("systemd-run is executed", func() bool { _, code := m.exitCode("test", "-e", "/run/begun"); return code == 0 })
	if out := m.must("allocnet", "gc"); !strings.Contains(out, "killed") || strings.Contains(out, "starting") {
		t.Errorf("gc: %s", out)
	}
	m.must("allocnet", "check", "starting")
	m.must("rm", "/run/hold")
	if err := cmd.Wait(); err == nil {
		t.Error("systemd-run did not fail")
	}
	m.requireSame(before)
	requireNoOutcomes(m)

	kill()
	m.must("systemctl", "start", "allocnet.socket")
	if _, err := m.client.GC(ctx); err != nil {
		t.Error(err)
	}
	m.requireSame(before)
	requireNoOutcomes(m)
	m.must("allocnet", "systemd-run", "--unit", "running", "--primary", "web", "--", "sleep", "infinity")
	m.must("allocnet", "gc")
	m.must("allocnet", "check", "running")
	m.must("systemctl", "stop", "running.service")
	m.requireSame(before)
}

// requireNoOutcomes fails if a file with the outcome of a unit is left.
func requireNoOutcomes(m *machine) {
	m.Helper()
	if out := m.must("ls", "/run"); strings.Contains(out, "allocnet-unit") {
		m.Errorf("left in /run: %s", out)
	}
}
