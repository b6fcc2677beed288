// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package systemd

import "testing"

// TestLongDisconnectedSystemdRun: D-Bus restarts while systemd-run waits for a unit, and
// systemd-run exits with 0. allocnet does not take that for the end of the unit, which
// runs on with its networks.
func TestLongDisconnectedSystemdRun(t *testing.T) {
	m := newMachine(t)
	before := m.warm()
	m.must("systemctl", "stop", "allocnet.socket", "allocnet.service") // the rounds of the agent tear down, too
	waiting := m.command("allocnet", "systemd-run", "--unit", "long", "--primary", "web", "--wait", "--", "sleep", "infinity")
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	m.await("the unit runs", func() bool { return m.property("long.service", "ActiveState") == "active" })
	m.must("systemctl", "restart", "dbus.service")
	_ = waiting.Wait()
	if code := waiting.ProcessState.ExitCode(); code != 125 {
		t.Errorf("the command runs, and exit code %d is not allocnet's own", code)
	}
	if got := m.property("long.service", "ActiveState"); got != "active" {
		t.Fatalf("the unit is %s", got)
	}
	if out, code := m.exitCode("allocnet", "check", "long"); code != 0 {
		t.Errorf("the unit runs, and its networks are gone: %d %s", code, out)
	}
	m.must("systemctl", "stop", "long.service")
	m.requireSame(before)
}

// TestLongReexecutedSystemd: systemd re-executes itself, as in an upgrade, while systemd-run
// waits for the start of a unit, and systemd-run fails. The unit runs on with its networks.
func TestLongReexecutedSystemd(t *testing.T) {
	m := newMachine(t)
	before := m.warm()
	m.must("systemctl", "stop", "allocnet.socket", "allocnet.service") // the rounds of the agent tear down, too
	starting := m.command("allocnet", "systemd-run", "--unit", "once", "--primary", "web", "--property", "Type=oneshot", "--", "sleep", "infinity")
	if err := starting.Start(); err != nil {
		t.Fatal(err)
	}
	m.await("the command runs", func() bool { return m.property("once.service", "MainPID") != "0" })
	m.must("systemctl", "daemon-reexec")
	_ = starting.Wait()
	if got := m.property("once.service", "ActiveState"); got != "activating" {
		t.Fatalf("the unit is %s", got)
	}
	if out, code := m.exitCode("allocnet", "check", "once"); code != 0 {
		t.Errorf("the command runs, and its networks are gone: %d %s", code, out)
	}
	m.must("systemctl", "stop", "once.service")
	m.await("nothing of the unit is left", func() bool { // after daemon-reexec, systemd 252 does not run ExecStopPost
		m.must("allocnet", "gc")
		_, code := m.exitCode("allocnet", "check", "once")
		return code == 3
	})
	m.requireSame(before)
}
