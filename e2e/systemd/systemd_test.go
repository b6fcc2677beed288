// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package systemd

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
)

var ctx = context.Background()

// TestPackage installs, upgrades, removes and purges the package. An allocation remains
// attached during the upgrade, and is not abandoned by a removal. It is installed again from a repository.
func TestPackage(t *testing.T) {
	m := newMachine(t)
	if got := m.property("allocnet.service", "ActiveState"); got != "active" {
		t.Fatalf("after the installation the agent is %s", got)
	}
	m.await("the agent is ready", func() bool { return m.client.Ready(ctx) == nil })
	for _, path := range []string{"/usr/share/man/man1/allocnet-agent.1.gz", "/usr/share/bash-completion/completions/allocnet", "/usr/share/doc/allocnet/examples/10-web.conflist"} {
		m.must("test", "-s", path)
	}
	m.write("/etc/allocnet.d/agent.hcl", "log_level = \"debug\"\n")
	m.must("allocnet", "attach", "web-1", "--primary", "storage")
	first := m.property("allocnet.service", "MainPID")
	m.install(upgrade)
	if got := m.property("allocnet.service", "MainPID"); got == first || got == "0" {
		t.Errorf("after the upgrade the agent is process %s, before %s", got, first)
	}
	if got := m.must("cat", "/etc/allocnet.d/agent.hcl"); !strings.Contains(got, "debug") {
		t.Errorf("the configuration was replaced: %s", got)
	}
	if a, err := m.client.Allocation(ctx, "web-1"); err != nil || len(a.Attachments) != 1 {
		t.Errorf("after the upgrade: %v, %v", a, err)
	}
	m.must("allocnet", "detach", "web-1")
	m.must("systemctl", "disable", "--now", "allocnet.service", "allocnet.socket")
	m.install(upgrade)
	for _, unit := range []string{"allocnet.service", "allocnet.socket"} {
		if file, active := m.property(unit, "UnitFileState"), m.property(unit, "ActiveState"); file != "disabled" || active != "inactive" {
			t.Errorf("after an upgrade the disabled unit %s is %s and %s", unit, file, active)
		}
	}
	m.must("systemctl", "enable", "--now", "allocnet.service", "allocnet.socket")
	m.must("dpkg", "-r", "allocnet")
	if out, code := m.exitCode("systemctl", "cat", "allocnet.service"); code == 0 {
		t.Errorf("the unit is left:\n%s", out)
	}
	m.must("dpkg", "--purge", "allocnet")
	m.requireNoFiles()
	m.requireRepository(readPage(t, "releases.md"))
	m.requireRemoval("dpkg --purge allocnet", readPage(t, "uninstall.md").step(t, "script"))
	m.requireNoFiles()
	m.requireRPM()
}

// TestAgent: the agent is a service of type notify. systemd restarts it after a kill and,
// by its watchdog, after a hang, and starts it when a client connects to its socket.
func TestAgent(t *testing.T) {
	m := newMachine(t)
	m.await("the status line says that it is ready", func() bool {
		return strings.HasPrefix(m.property("allocnet.service", "StatusText"), "Ready; 0 allocations")
	})
	restarted := func(after string, kill ...string) {
		t.Helper()
		old := m.property("allocnet.service", "MainPID")
		m.must(kill...)
		m.await("it is started again after "+after, func() bool {
			now := m.property("allocnet.service", "MainPID")
			return now != "0" && now != old && m.property("allocnet.service", "ActiveState") == "active"
		})
		if _, err := m.client.Allocations(ctx); err != nil {
			t.Errorf("after %s: %v", after, err)
		}
	}
	restarted("kill -9", "systemctl", "kill", "--kill-whom=main", "-s", "KILL", "allocnet.service")
	m.write("/etc/systemd/system/allocnet.service.d/quick.conf", "[Service]\nWatchdogSec=10s\nTimeoutAbortSec=1s\n") // the agent of a busy machine answers in less
	m.must("systemctl", "daemon-reload")
	m.must("systemctl", "restart", "allocnet.service")
	restarted("a hang", "systemctl", "kill", "-s", "STOP", "allocnet.service")
	if log := m.must("journalctl", "--no-pager", "-u", "allocnet.service"); !strings.Contains(log, "Watchdog timeout") {
		t.Errorf("it was not the watchdog:\n%s", log)
	}
	if log := m.must("journalctl", "--no-pager", "-p", "info", "-o", "cat", "-u", "allocnet.service"); !strings.Contains(log, "[INFO]  allocnet: serving") {
		t.Errorf("no line of level info:\n%s", log)
	}

	m.must("systemctl", "stop", "allocnet.service")
	if got := m.property("allocnet.service", "Result"); got != "success" {
		t.Errorf("the stop is a %s", got)
	}
	if _, err := m.client.Allocations(ctx); err != nil {
		t.Errorf("through the socket: %v", err)
	}
	m.await("the socket has started the agent", func() bool { return m.property("allocnet.service", "ActiveState") == "active" })
	m.must("systemctl", "reload", "allocnet.service")
	m.await("the configuration is read again", func() bool {
		return strings.Contains(m.must("journalctl", "--no-pager", "-u", "allocnet.service"), "configuration reloaded")
	})
}

// ask is a Perl program that connects to the socket and requests the agent's health.
const ask = `use IO::Socket::UNIX;
my $c = IO::Socket::UNIX->new("/run/allocnet/agent.sock") or die "connect: $!\n";
print $c "GET /healthz HTTP/1.0\r\nHost: agent\r\n\r\n";
print <$c>`

// TestLongSocketGroup: members of the configured group can connect to the socket of the
// packaged socket unit, and other users cannot.
func TestLongSocketGroup(t *testing.T) {
	m := newMachine(t)
	m.must("groupadd", "friends")
	m.must("useradd", "--groups", "friends", "member")
	m.must("useradd", "stranger")
	as := func(user string) (string, int) {
		return m.exitCode("setpriv", "--reuid="+user, "--regid="+user, "--init-groups", "perl", "-e", ask)
	}
	if out, code := as("member"); code == 0 || !strings.Contains(out, "Permission denied") {
		t.Errorf("before any configuration: %d %s", code, out)
	}
	m.write("/etc/allocnet.d/agent.hcl", "socket {\n  group = \"friends\"\n}\n")
	for _, restart := range []string{"allocnet.service", "allocnet.socket"} {
		m.must("systemctl", "restart", restart)
		m.must("systemctl", "start", "allocnet.service")
		if out, code := as("member"); code != 0 || !strings.Contains(out, "200 OK") {
			t.Errorf("a member, after the restart of %s: %d %s", restart, code, out)
		}
		if out, code := as("stranger"); code == 0 || !strings.Contains(out, "Permission denied") {
			t.Errorf("a stranger, after the restart of %s: %d %s", restart, code, out)
		}
	}
	m.must("systemctl", "stop", "allocnet.service")
	if out, code := as("member"); code != 0 || !strings.Contains(out, "200 OK") {
		t.Errorf("a member starts the agent: %d %s", code, out)
	}
}

// TestLongAgentBySystemdRun: systemd-run starts the agent without a unit file.
func TestLongAgentBySystemdRun(t *testing.T) {
	m := newMachine(t)
	m.must("systemctl", "disable", "--now", "allocnet.service", "allocnet.socket")
	m.must("systemd-run", "--unit=agent", "-p", "Type=notify", "-p", "WatchdogSec=20", "allocnet", "agent")
	if _, err := m.client.Allocations(ctx); err != nil {
		t.Errorf("when systemd-run returns: %v", err)
	}
	m.await("the first round is over", func() bool { return m.client.Ready(ctx) == nil })
	m.await("the agent has reported its status", func() bool { return m.property("agent", "StatusText") != "" })
	m.must("systemctl", "stop", "agent")
	if out, code := m.exitCode("ls", "/run/allocnet/agent.sock"); code == 0 {
		t.Errorf("left: %s", out)
	}
}

const webUnit = `
[Unit]
Requires=allocnet@web.service
After=allocnet@web.service
StartLimitIntervalSec=0

[Service]
NetworkNamespacePath=/run/netns/web
BindReadOnlyPaths=/etc/netns/web/resolv.conf:/etc/resolv.conf
ExecStart=/usr/local/bin/web serve hello
Restart=on-failure
RestartSec=100ms
`

const webNetworks = `
primary  = "web"
networks = [{ name = "storage", interface = "data0" }]
publish  = ["8080:80/tcp"]
`

// TestService: a service has two networks and a published port, also after restarts and
// kills. An unknown network is an error in the journal.
func TestService(t *testing.T) {
	m := newMachine(t)
	before := m.warm()
	m.write("/etc/allocnet.d/units/web.hcl", webNetworks)
	m.write("/etc/systemd/system/web.service", webUnit)
	m.must("systemctl", "daemon-reload")
	m.must("systemctl", "start", "web.service")
	m.requireServed()
	if out := m.must("ip", "netns", "exec", "web", "ip", "-brief", "addr", "show", "data0"); !strings.Contains(out, "10.89.") {
		t.Errorf("data0 is %s", out)
	}
	own := m.must("cat", "/etc/netns/web/resolv.conf")
	if out := m.must("nsenter", "--mount", "--target", m.property("web.service", "MainPID"), "cat", "/etc/resolv.conf"); out != own || !strings.Contains(out, "allocnet") {
		t.Errorf("the service has the resolv.conf\n%s, want\n%s", out, own)
	}
	for range 20 {
		m.must("systemctl", "restart", "web.service")
	}
	m.requireServed()
	for range 3 {
		old := m.property("web.service", "MainPID")
		m.must("systemctl", "kill", "--kill-whom=main", "-s", "KILL", "web.service")
		m.await("the service is started again", func() bool {
			now := m.property("web.service", "MainPID")
			return now != "0" && now != old
		})
	}
	m.requireServed()
	m.must("systemctl", "stop", "web.service")
	m.requireSame(before)

	m.write("/etc/allocnet.d/units/web.hcl", `primary = "nowhere"`)
	if out, code := m.exitCode("systemctl", "start", "web.service"); code == 0 {
		t.Errorf("with an unknown network: %s", out)
	}
	if log := m.must("journalctl", "--no-pager", "-u", "allocnet@web.service"); !strings.Contains(log, `unknown network "nowhere"`) {
		t.Errorf("the journal does not say why:\n%s", log)
	}
	m.requireSame(before)
}

// requireServed waits until the service answers on its published port.
func (m *machine) requireServed() {
	m.Helper()
	answer := ""
	m.await("the service answers", func() bool {
		text, err := m.get("http://127.0.0.1:8080/")
		answer = text
		return err == nil
	})
	if !strings.Contains(answer, "hello") {
		m.Errorf("the service answers %q", answer)
	}
}

// get sends a request from within the machine's network namespace.
func (m *machine) get(url string) (string, error) {
	ns, err := netns.Open(fmt.Sprintf("/proc/%d/ns/net", m.leader))
	if err != nil {
		return "", err
	}
	defer ns.Close()
	dial := func(ctx context.Context, network, address string) (c net.Conn, err error) {
		failed := ns.Do(func() error {
			c, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return c, failed
	}
	c := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	response, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return string(data), err
}

// TestSystemdRun: a command has its networks and its exit code, however its unit ends. No
// network and no file is left.
func TestSystemdRun(t *testing.T) {
	m := newMachine(t)
	before := m.warm()
	out := m.must("allocnet", "systemd-run", "--primary", "web", "--networks", "storage@data0", "--wait", "--", "ip", "-brief", "addr")
	if !strings.Contains(out, "10.88.") || !strings.Contains(out, "data0") {
		t.Errorf("the command sees\n%s", out)
	}
	if out := m.must("allocnet", "systemd-run", "--unit", "names", "--primary", "web", "--wait", "--", "cat", "/etc/resolv.conf"); !strings.HasPrefix(out, "# Written by allocnet for network namespace names,") {
		t.Errorf("the command has the resolv.conf\n%s", out)
	}
	m.requireSame(before)
	if out, code := m.exitCode("allocnet", "systemd-run", "--primary", "web", "--wait", "--", "sh", "-c", "exit 7"); code != 7 {
		t.Errorf("exit code %d, want 7: %s", code, out)
	}
	m.requireSame(before)
	for command, want := range map[string]int{"exit 1": 1, "exit 125": 125, "kill -9 $$$$": 128 + 9} {
		if out, code := m.exitCode("allocnet", "systemd-run", "--primary", "web", "--wait", "--", "sh", "-c", command); code != want {
			t.Errorf("%s: exit code %d, want %d: %s", command, code, want, out)
		}
	}
	for _, wait := range []string{"--wait", "--wait=false"} { // systemd-run itself fails with 1
		if out, code := m.exitCode("allocnet", "systemd-run", "--primary", "web", wait, "--property", "NoSuch=1", "--", "true"); code != 125 || !strings.Contains(out, "NoSuch") {
			t.Errorf("a request that systemd refuses, %s: %d %s", wait, code, out)
		}
		if out, code := m.exitCode("allocnet", "systemd-run", "--unit", "allocnet", "--primary", "web", wait, "--", "true"); code != 125 || !strings.Contains(out, "already") {
			t.Errorf("a unit that exists, %s: %d %s", wait, code, out)
		}
		if out, code := m.exitCode("allocnet", "systemd-run", "--primary", "nowhere", wait, "--", "true"); code != 2 {
			t.Errorf("a request that allocnet refuses, %s: %d %s", wait, code, out)
		}
	}
	if out := m.must("sh", "-c", "ls /run"); strings.Contains(out, "allocnet-unit") {
		t.Errorf("left in /run: %s", out)
	}
	m.requireSame(before)

	for _, end := range [][]string{{"stop"}, {"kill", "-s", "KILL"}, {"kill", "-s", "TERM"}} {
		m.must("allocnet", "systemd-run", "--unit", "web-1", "--primary", "web", "--publish", "8080:80", "--property", "AmbientCapabilities=CAP_NET_BIND_SERVICE", "--property", "User=nobody", "--", "/usr/local/bin/web", "serve", "hello")
		m.requireServed()
		if out, code := m.exitCode("allocnet", "systemd-run", "--unit", "web-1", "--primary", "web", "--", "true"); code == 0 {
			t.Errorf("a second unit of the name: %s", out)
		}
		m.must(append(append([]string{"systemctl"}, end...), "web-1.service")...)
		m.requireSame(before)
		// The networks are gone before systemd unloads the unit and frees its name.
		m.await("the unit is unloaded", func() bool { return m.property("web-1.service", "LoadState") == "not-found" })
	}

	m.must("allocnet", "systemd-run", "--state-dir", "/run/lost", "--unit", "web-1", "--primary", "web", "--publish", "8080:80", "--", "/usr/local/bin/web", "serve", "hello")
	m.must("rm", "-r", "/run/lost")
	m.must("systemctl", "stop", "web-1.service")
	m.must("rm", "-rf", "/run/lost")
	m.requireSame(before)
}
