// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package systemd

import (
	"path/filepath"
	"regexp"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"
)

// ownFiles are those of allocnet, which a removal removes.
var ownFiles = regexp.MustCompile(`(?m)^/var/lib/allocnet/.*\n`)

// requireRemoval removes the installed package by commands while a service and an allocation have networks: the first one
// is refused, and the second, with ALLOCNET_REMOVE=detach, leaves nothing of both.
func (m *machine) requireRemoval(remove, detach string) {
	m.Helper()
	m.must("systemctl", "enable", "--now", "allocnet.service", "allocnet.socket", "allocnet-cni-dhcp.socket")
	before := ownFiles.ReplaceAllString(m.warm(), "")
	m.write("/etc/allocnet.d/units/web.hcl", webNetworks)
	m.write("/etc/systemd/system/web.service", webUnit)
	m.must("systemctl", "daemon-reload")
	m.must("systemctl", "start", "web.service")
	m.must("allocnet", "attach", "job-1", "--primary", "web", "--publish", "8081:80")
	m.must("allocnet", "systemd-run", "--unit", "another", "--primary", "web", "--", "sleep", "infinity")
	for _, choice := range []string{"", "no"} {
		out, code := m.exitCode("env", "ALLOCNET_REMOVE="+choice, "sh", "-c", remove)
		if code == 0 || !strings.Contains(out, "allocnet is not removed") || choice == "" && !strings.Contains(out, "job-1\nweb\n") {
			m.Errorf("ALLOCNET_REMOVE=%q: code %d, %s: want a refusal that names both allocations", choice, code, out)
		}
	}
	if got := m.property("allocnet.service", "ActiveState"); got != "active" {
		m.Errorf("after a removal that was refused the agent is %s", got)
	}
	m.requireServed()

	m.must("mkdir", "/var/lib/allocnet/allocations/killed") // what a killed process left before it wrote a record
	m.must("sh", "-euxc", detach)
	for _, unit := range []string{"web.service", "another.service", "allocnet-cni-dhcp.socket"} {
		if got := m.property(unit, "ActiveState"); got == "active" {
			m.Errorf("%s is %s without the package", unit, got)
		}
	}
	m.must("rm", "/etc/systemd/system/web.service")
	after := ownFiles.ReplaceAllString(m.snapshot(), "")
	if diff := gocmp.Diff(strings.Split(before, "\n"), strings.Split(after, "\n")); diff != "" {
		m.Errorf("the removal has left (-before +after):\n%s", diff)
	}
}

// requireNoFiles requires that no file of allocnet is there.
func (m *machine) requireNoFiles() {
	m.Helper()
	left := m.must("sh", "-c", "find / -xdev -name '*allocnet*' -not -path '/root/*' -not -path '/var/log/*' -not -path '/proc/*' -not -path '/sys/*' -not -path '/run/systemd/*'")
	if left = strings.TrimSpace(left); left != "" {
		m.Errorf("left:\n%s", left)
	}
}

// requireKept removes the package and leaves what is attached, for the package that is installed then.
func (m *machine) requireKept() {
	m.Helper()
	m.must("allocnet", "attach", "kept", "--primary", "storage")
	m.must("env", "ALLOCNET_REMOVE=keep", "dpkg", "--purge", "allocnet")
	m.install(upgrade)
	m.must("allocnet", "check", "kept")
	m.must("allocnet", "detach", "kept")
}

// requireRPM does with the RPM package what the Debian package has passed. It is no package of this system, so its
// dependencies do not count.
func (m *machine) requireRPM() {
	m.Helper()
	path := m.copyRPM()
	m.must("rpm", "--dbpath", "/root/rpm", "--install", "--nodeps", path)
	erase := "rpm --dbpath /root/rpm --erase allocnet"
	m.requireRemoval(erase, "ALLOCNET_REMOVE=detach "+erase)
	m.must("rm", "-r", "/etc/allocnet.d") // RPM leaves what it has not installed
	m.requireNoFiles()
}

// copyRPM copies the RPM package to the machine, and returns its path there. It has to be signed by the key of the
// repository.
func (m *machine) copyRPM() string {
	m.Helper()
	found, _ := filepath.Glob(packages + "/allocnet-" + upgrade + "-1.*.rpm")
	if len(found) != 1 {
		m.Fatalf("RPM packages %v", found)
	}
	path := "/root/" + filepath.Base(found[0])
	m.copy(found[0], path)
	check := []string{"rpm", "--dbpath", "/root/rpm", "--checksig", path}
	if out, code := m.exitCode(check...); code == 0 {
		m.Errorf("without the key, its signature is good: %s", out)
	}
	m.must("rpm", "--dbpath", "/root/rpm", "--import", "/root/allocnet.asc")
	if out := m.must(check...); !strings.Contains(out, "signatures OK") {
		m.Errorf("the package is not signed: %s", out)
	}
	return path
}
