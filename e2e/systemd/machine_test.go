// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package systemd runs allocnet on a machine whose PID 1 is a real systemd,
// installed from its Debian package.
package systemd

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// Versions of the Debian package: the installed one, and that of the upgrade.
const (
	release = "0.1.0"
	upgrade = "0.1.1"
)

var (
	packages string   // the directory with both packages
	key      []string // the variables of the key that has signed them
)

func TestMain(m *testing.M) {
	os.Exit(sandbox.MainOutside(func() int {
		code, err := prepare(m.Run)
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
		}
		return code
	}, "dist", "docs", "LICENSE", "README.md", "SECURITY.md", "GOVERNANCE.md", "CHANGELOG.md", "build/tools/nfpm", "build/systemd/.built"))
}

func prepare(run func() int) (int, error) {
	for _, tool := range []string{"systemd-nspawn", "nsenter", "unshare", "dpkg-deb", "gpg", "gpg-agent", "apt-ftparchive", "createrepo_c"} {
		if _, err := exec.LookPath(tool); err != nil {
			return 1, fmt.Errorf("%s is missing: run: make deps", tool)
		}
	}
	for _, program := range []string{"/usr/lib/systemd/systemd", "/usr/sbin/firewalld", "/sbin/ifup", "/usr/sbin/NetworkManager", "/usr/bin/udevadm", "/usr/bin/rpm"} {
		if _, err := os.Stat(system() + program); err != nil {
			return 1, fmt.Errorf("the Debian system of the tests is missing: %w: run: make systemd", err)
		}
	}
	dir, err := os.MkdirTemp("", "allocnet-packages")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	packages = dir
	if err := sandbox.Install(dir+"/bin", "allocnet", "allocnet-cni", "allocnet-ipam", "web"); err != nil {
		return 1, err
	}
	nfpm := filepath.Join(sandbox.Root(), "build", "tools", "nfpm")
	if _, err := os.Stat(nfpm); err != nil {
		return 1, fmt.Errorf("%w: run: make build/tools/nfpm", err)
	}
	if key, err = sandbox.NewSigningKey(dir); err != nil {
		return 1, err
	}
	for _, version := range []string{release, upgrade} {
		pack := exec.Command("../../dist/package.sh", nfpm, dir+"/bin", dir)
		pack.Env = append(append(os.Environ(), "VERSION="+version, "PACKAGE_COMPRESSION=gzip:1"), key...)
		if out, err := pack.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("package: %w: %s", err, out)
		}
	}
	return run(), nil
}

// system returns the root directory of the Debian system that `make systemd` builds, with firewalld, ifupdown, udev
// and NetworkManager.
func system() string { return filepath.Join(sandbox.Root(), "build", "systemd", "root") }

// machine is a booted Debian system. Its file system is an overlay over the shared one.
type machine struct {
	*testing.T
	leader int
	client *client.Client
}

// boot mounts an overlay over the Debian system and boots it. The mounts are in a mount
// namespace that ends with the machine. Further arguments are files that the machine does not have.
const boot = `
dir=$1
mount -t tmpfs tmpfs "$dir"
mkdir "$dir/upper" "$dir/work" "$dir/root"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$dir/upper,workdir=$dir/work" "$dir/root"
shift 2
for file; do rm "$dir/root$file"; done
set -- "$dir"
exec systemd-nspawn -D "$1/root" --register=no --keep-unit --private-network --console=pipe --boot
`

// firewalld are the files by which systemd, D-Bus and allocnet know that firewalld is installed.
var firewalld = []string{"/usr/sbin/firewalld", "/usr/bin/firewall-cmd", "/lib/systemd/system/firewalld.service", "/usr/share/dbus-1/system.d/FirewallD.conf"}

// networkManager is the file by which systemd starts NetworkManager.
const networkManager = "/lib/systemd/system/NetworkManager.service"

// newMachine boots a machine without firewalld and NetworkManager, and installs the CNI plugins, the example networks
// and the package.
func newMachine(t *testing.T) *machine {
	t.Helper()
	return bootWithout(t, append(firewalld, networkManager)...)
}

// bootWithout is newMachine of a system that lacks these files only.
func bootWithout(t *testing.T, files ...string) *machine {
	t.Helper()
	var console bytes.Buffer
	nspawn := exec.Command("unshare", append([]string{"--mount", "--propagation", "private", "sh", "-ec", boot, "sh", t.TempDir(), system()}, files...)...)
	nspawn.Stdout, nspawn.Stderr = &console, &console
	nspawn.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := nspawn.Start(); err != nil {
		t.Fatal(err)
	}
	m := &machine{T: t}
	t.Cleanup(func() {
		if t.Failed() && m.leader != 0 {
			log, _ := m.command("journalctl", "--no-pager", "-q", "-n", "60", "-u", "allocnet*", "-u", "web*").CombinedOutput()
			t.Logf("the machine's journal:\n%s", log)
		}
		if m.leader != 0 {
			_ = unix.Kill(m.leader, unix.SIGKILL) // also ends all processes of its PID namespace
		}
		_ = nspawn.Process.Kill()
		_ = nspawn.Wait()
		if t.Failed() && m.leader == 0 {
			t.Logf("the machine's console:\n%s", console.String())
		}
	})
	m.await("systemd starts", func() bool {
		m.leader = leaderOf(nspawn.Process.Pid)
		return m.leader != 0
	})
	m.await("systemd has booted", func() bool {
		out, _ := m.command("systemctl", "is-system-running").Output()
		return strings.HasPrefix(string(out), "running") || strings.HasPrefix(string(out), "degraded")
	})
	m.client = client.New(fmt.Sprintf("/proc/%d/root/run/allocnet/agent.sock", m.leader))
	m.furnish()
	return m
}

// leaderOf returns the PID of the systemd that a systemd-nspawn has started, or 0 if it
// has not yet.
func leaderOf(nspawn int) int {
	var pid int
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", nspawn, nspawn))
	if n, _ := fmt.Sscan(string(children), &pid); n == 0 {
		return 0
	}
	if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(name) != "systemd\n" {
		return 0
	}
	return pid
}

func (m *machine) furnish() {
	m.Helper()
	for _, name := range []string{"bridge", "host-local", "portmap", "firewall"} {
		m.copy(filepath.Join(sandbox.PluginDir(), name), "/opt/cni/bin/"+name)
	}
	for _, name := range []string{"10-web.conflist", "20-storage.conflist"} {
		m.copy("../../dist/conf/"+name, "/opt/cni/config/"+name)
	}
	m.copy(packages+"/bin/web", "/usr/local/bin/web")
	for _, version := range []string{release, upgrade} {
		m.copy(deb(version), "/root/"+filepath.Base(deb(version)))
	}
	m.must("ip", "link", "set", "lo", "up")
	m.must("sysctl", "-qw", "net.ipv4.ip_forward=1")
	m.install(release)
}

func deb(version string) string {
	found, _ := filepath.Glob(packages + "/allocnet_" + version + "-1_*.deb")
	if len(found) != 1 {
		return "no package of " + version
	}
	return found[0]
}

func (m *machine) install(version string) {
	m.Helper()
	m.must("dpkg", "-i", "/root/"+filepath.Base(deb(version)))
}

// command returns a command that runs in the namespaces of the machine.
func (m *machine) command(words ...string) *exec.Cmd {
	enter := []string{"-t", fmt.Sprint(m.leader), "-m", "-u", "-i", "-n", "-p", "-C", "--"}
	cmd := exec.Command("nsenter", append(enter, words...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive"}
	return cmd
}

// must runs a command, fails the test if the command fails, and returns its output.
func (m *machine) must(words ...string) string {
	m.Helper()
	out, err := m.command(words...).CombinedOutput()
	if err != nil {
		m.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

// exitCode runs a command and returns its output and its exit code.
func (m *machine) exitCode(words ...string) (string, int) {
	m.Helper()
	cmd := m.command(words...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		m.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// write writes a file in the machine.
func (m *machine) write(path, text string) {
	m.Helper()
	cmd := m.command("sh", "-c", `mkdir -p "$(dirname "$0")" && cat > "$0"`, path)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		m.Fatalf("write %s: %v: %s", path, err, out)
	}
}

func (m *machine) copy(from, to string) {
	m.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		m.Fatal(err)
	}
	m.write(to, string(data))
	m.must("chmod", "755", to)
}

func (m *machine) await(what string, done func() bool) {
	m.Helper()
	sandbox.Eventually(m, what, done)
}

// property returns a property of a unit.
func (m *machine) property(unit, name string) string {
	m.Helper()
	return strings.TrimSpace(m.must("systemctl", "show", "-P", name, unit))
}

// volatile matches what differs without a leak: counters, and the address that host-local
// reserved last.
var volatile = regexp.MustCompile(`(?m)^#.*\n|\[\d+:\d+\]|.*last_reserved_ip.*\n`)

// snapshot returns the rules, interfaces, namespaces and files that an allocation can leave.
func (m *machine) snapshot() string {
	m.Helper()
	return volatile.ReplaceAllString(m.must("sh", "-ec", `
iptables-save
ip -o link | sed 's/^[0-9]*: //; s/@.*//; s/:.*//' | sort
ls /run/netns
ls /etc/netns 2>/dev/null || :
find /var/lib/cni /var/lib/allocnet /run/cni -type f -not -path '/var/lib/allocnet/events/*' 2>/dev/null | sort`), "")
}

// warm attaches and detaches an allocation, so that the objects that plugins make once for
// all allocations exist, and returns a snapshot with them.
func (m *machine) warm() string {
	m.Helper()
	m.must("allocnet", "attach", "warm", "--primary", "web", "--networks", "storage", "--publish", "4000:80")
	m.must("allocnet", "detach", "warm")
	return m.snapshot()
}

// requireSame waits until the machine is as in the snapshot: the kernel and systemd remove
// some objects with a delay.
func (m *machine) requireSame(before string) {
	m.Helper()
	diff := ""
	sandbox.Eventually(m, "the machine is as it was (-before +after)", func() bool {
		diff = gocmp.Diff(strings.Split(before, "\n"), strings.Split(m.snapshot(), "\n"))
		return diff == ""
	}, func() string { return diff })
}
