// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package systemd

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// newRepository makes a repository of the package of the upgrade.
func (m *machine) newRepository(dir string) {
	m.Helper()
	rpms, _ := filepath.Glob(packages + "/allocnet-" + upgrade + "-1.*.rpm")
	for _, path := range append(rpms, deb(upgrade)) {
		if err := os.Link(path, filepath.Join(dir, filepath.Base(path))); err != nil {
			m.Fatal(err)
		}
	}
	m.onHost(nil, "sh", "-ec", `cd "$0" && sha256sum -- *.deb *.rpm >SHA256SUMS`, dir)
	m.onHost(key, "../../dist/repository.sh", dir)
}

// onHost runs a program of the test's host.
func (m *machine) onHost(environ []string, words ...string) {
	m.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), environ...)
	if out, err := cmd.CombinedOutput(); err != nil {
		m.Fatalf("%v: %v: %s", words, err, out)
	}
}

// serve serves a directory to the machine, on port 80 of its loopback address.
func (m *machine) serve(dir string) {
	m.Helper()
	ns, err := netns.Open(fmt.Sprintf("/proc/%d/ns/net", m.leader))
	if err != nil {
		m.Fatal(err)
	}
	defer ns.Close()
	var listener net.Listener
	if err := ns.Do(func() (err error) {
		listener, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:80")
		return err
	}); err != nil {
		m.Fatal(err)
	}
	server := &http.Server{Handler: http.FileServer(http.Dir(dir)), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	m.Cleanup(func() { _ = server.Close() })
}

// requireRepository installs the package from a repository by the page, on a machine that has no other sources. What is
// not as it was signed is refused. The installed programs are those of the release, or allocnet tells which are not.
func (m *machine) requireRepository(releases page) {
	m.Helper()
	dir := m.TempDir()
	m.newRepository(dir)
	m.serve(dir)
	m.must("sh", "-c", "rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*")
	// Without another address than that of the loopback device, apt resolves none.
	m.must("sh", "-ec", "ip link add eno1 type veth peer name lan; ip address add 192.0.2.1/24 dev eno1")
	local := strings.NewReplacer("https://packages.example.org", "http://127.0.0.1",
		"curl -fsSLo /etc/apt/keyrings/allocnet.asc https://packages.example.org/allocnet.asc", "/usr/lib/apt/apt-helper download-file http://127.0.0.1/allocnet.asc /etc/apt/keyrings/allocnet.asc")
	m.must("sh", "-euxc", local.Replace(releases.step(m.T, "source")))
	m.requireForgeriesRefused(dir)
	m.must("sh", "-euxc", releases.step(m.T, "install"))
	m.must("sh", "-euxc", releases.step(m.T, "verify"))
	m.requireKept()

	m.must("sh", "-c", "echo >>/opt/cni/bin/allocnet-cni; cp /usr/bin/allocnet /usr/local/bin/")
	out, code := m.exitCode("/usr/local/bin/allocnet", "version", "--verify")
	for _, want := range []string{"ok: /usr/bin/allocnet\n", "changed: /opt/cni/bin/allocnet-cni\n", "ok: /opt/cni/bin/allocnet-ipam\n", "unlisted: /usr/local/bin/allocnet\n", "/opt/cni/bin/allocnet-cni is changed"} {
		if code != 1 || !strings.Contains(out, want) {
			m.Errorf("with a changed program and one beside: code %d, %s, want %q", code, out, want)
		}
	}
	m.must("rm", "/usr/local/bin/allocnet")
	m.must("sh", "-c", "sed -i s,/usr/bin,/opt/bin, /usr/share/allocnet/programs.sha256")
	if out, code := m.exitCode("allocnet", "version", "--verify"); code != 1 || !strings.Contains(out, "BAD signature") {
		m.Errorf("with a changed list: code %d, %s", code, out)
	}
	m.must("sh", "-c", "mv /etc/apt/keyrings/allocnet.asc /root/; rm /etc/apt/sources.list.d/*; apt-get clean")
}

// requireForgeriesRefused requires that apt installs nothing of a changed package, index or signature, or of another key.
func (m *machine) requireForgeriesRefused(dir string) {
	m.Helper()
	for _, files := range [][]string{{filepath.Base(deb(upgrade))}, {"Packages", "Packages.gz"}, {"InRelease"}} {
		restore := m.damage(dir, files...)
		m.requireNothingFrom("a changed "+files[0], "E: ")
		restore()
	}
	other, err := sandbox.NewSigningKey(m.TempDir())
	if err != nil {
		m.Fatal(err)
	}
	restore := m.damage(dir, "InRelease")
	m.onHost(other, "../../dist/gpg.sh", "--clearsign", "--output", dir+"/InRelease", dir+"/SHA256SUMS")
	m.requireNothingFrom("a signature by another key", "NO_PUBKEY")
	restore()
}

func (m *machine) requireNothingFrom(source, reason string) {
	m.Helper()
	out, code := m.exitCode("sh", "-c", "rm -rf /var/lib/apt/lists/* && apt-get update && apt-get install --download-only --yes allocnet")
	if code == 0 || !strings.Contains(out, reason) {
		m.Errorf("%s: code %d, %s: want a refusal with %q", source, code, out, reason)
	}
}

// damage changes a byte of files until the returned function is called. A file may be a link to one of other tests.
func (m *machine) damage(dir string, files ...string) (restore func()) {
	m.Helper()
	kept := m.TempDir()
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err == nil {
			err = os.Rename(filepath.Join(dir, file), filepath.Join(kept, file))
		}
		if err != nil {
			m.Fatal(err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			m.Fatal(err)
		}
	}
	return func() {
		for _, file := range files {
			if err := os.Rename(filepath.Join(kept, file), filepath.Join(dir, file)); err != nil {
				m.Fatal(err)
			}
		}
	}
}
