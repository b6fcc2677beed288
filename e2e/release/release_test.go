// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package release examines what `make release` builds.
package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/version"
)

// rpmNames are the architectures by their names in RPM.
var rpmNames = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// machines are the architectures by their names in Debian and in Go.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// TestMain: what is built depends on all that dist/release.sh reads.
func TestMain(m *testing.M) {
	os.Exit(sandbox.MainOutside(m.Run, "dist", "docs", "LICENSE", "README.md", "SECURITY.md", "GOVERNANCE.md", "CHANGELOG.md", "go.mod", "internal/version/version.go", "build/tools/nfpm", "build/tools/sbom"))
}

// TestLongRelease builds a release, and examines each of its files.
func TestLongRelease(t *testing.T) {
	dir := t.TempDir()
	build(t, dir, "ARCHITECTURES="+strings.Join(slices.Collect(maps.Keys(machines)), " "))
	requireChecksums(t, dir, 5*len(machines))
	for architecture, machine := range machines {
		base := filepath.Join(dir, "allocnet_"+version.Version)
		programs := unpack(t, base+"_linux_"+architecture+".tar.gz")
		modules := map[string]string{}
		for _, name := range []string{"allocnet", "allocnet-cni", "allocnet-cni-engine", "allocnet-ipam"} {
			requireStatic(t, architecture+"/"+name, programs[name], machine)
			addModules(t, modules, programs[name])
		}
		requireSBOM(t, base+"_linux_"+architecture+".spdx.json", modules)
		requireDebian(t, base+"-1_"+architecture+".deb", architecture, programs)
		requireRPM(t, filepath.Join(dir, "allocnet-"+version.Version+"-1."+rpmNames[architecture]+".rpm"), rpmNames[architecture], programs)
	}
	requireReproducible(t, dir)
	requireSigned(t, dir)
}

// build builds a release in an environment with more variables.
func build(t *testing.T, dir string, environ ...string) {
	t.Helper()
	for _, tool := range []string{"sbom", "nfpm"} {
		if _, err := os.Stat(tools(tool)); err != nil {
			t.Fatalf("%v: run: make build/tools/%s", err, tool)
		}
	}
	build := release(dir)
	build.Env = append(append(build.Env, "SOURCE_DATE_EPOCH=1700000000"), environ...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// requireReproducible builds once more, for this machine, in another environment.
func requireReproducible(t *testing.T, dir string) {
	t.Helper()
	again := t.TempDir()
	build(t, again, "ARCHITECTURES="+runtime.GOARCH, "TZ=Asia/Tokyo", "TMPDIR="+t.TempDir(), "USER=other")
	files, err := os.ReadDir(again)
	if err != nil || len(files) != 6 {
		t.Fatalf("the second release has %v, %v, want 5 files and their checksums", files, err)
	}
	for _, file := range files {
		if name := file.Name(); name != "SHA256SUMS" && !bytes.Equal(read(t, filepath.Join(again, name)), read(t, filepath.Join(dir, name))) {
			t.Errorf("%s is another file when it is built again", name)
		}
	}
}

// TestTagOfAnotherVersion: a release has the version of its programs, or none is built.
func TestTagOfAnotherVersion(t *testing.T) {
	dir := t.TempDir()
	build := release(dir)
	build.Env = append(build.Env, "VERSION=9.8.7")
	out, err := build.CombinedOutput()
	if err == nil || !strings.Contains(string(out), `"9.8.7"`) || !strings.Contains(string(out), version.Version) {
		t.Errorf("%v, %s: want both versions named", err, out)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("built %v (%v)", files, err)
	}
}

// release is the program that builds a release, with no version and no key in its environment.
func release(dir string) *exec.Cmd {
	build := exec.Command(filepath.Join(sandbox.Root(), "dist", "release.sh"), tools("sbom"), tools("nfpm"), dir)
	build.Env = append(os.Environ(), "VERSION=", "SIGNING_KEY=", "SIGNING_PASSPHRASE=")
	return build
}

func tools(name string) string { return filepath.Join(sandbox.Root(), "build", "tools", name) }

// requireChecksums holds SHA256SUMS to all other files.
func requireChecksums(t *testing.T, dir string, want int) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(read(t, filepath.Join(dir, "SHA256SUMS")))), "\n")
	if files, err := os.ReadDir(dir); err != nil || len(lines) != want || len(files) != want+1 {
		t.Errorf("%d checksums and %d files, want %d and one more (%v)", len(lines), len(files), want, err)
	}
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		if got := sha256.Sum256(read(t, filepath.Join(dir, name))); hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s has another checksum", name)
		}
	}
}

// unpack returns the files of an archive. They belong to root, and have the time
// of the release.
func unpack(t *testing.T, path string) map[string][]byte {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(read(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		} else if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.ModTime.Unix() != 1700000000 {
			t.Errorf("%s: %s is of %d:%d, %v", path, header.Name, header.Uid, header.Gid, header.ModTime)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(header.Name)] = data
	}
}

// requireStatic holds a program to its architecture, and to need no library.
func requireStatic(t *testing.T, name string, program []byte, machine elf.Machine) {
	t.Helper()
	file, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if file.Machine != machine {
		t.Errorf("%s is for %v, want %v", name, file.Machine, machine)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("%s is linked dynamically", name)
		}
	}
}

// addModules adds the modules of a program, with their versions.
func addModules(t *testing.T, modules map[string]string, program []byte) {
	t.Helper()
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range info.Settings {
		if s.Key == "-trimpath" && s.Value != "true" {
			t.Error("the program has paths of this machine")
		}
	}
	modules[info.Main.Path] = version.Version
	for _, m := range info.Deps {
		modules[m.Path] = strings.TrimPrefix(m.Version, "v")
	}
}

// requireSBOM holds an SPDX document to name all modules, each with its license.
func requireSBOM(t *testing.T, path string, modules map[string]string) {
	t.Helper()
	var document struct {
		Version  string `json:"spdxVersion"`
		Name     string `json:"name"`
		Creation struct {
			Created string `json:"created"`
		} `json:"creationInfo"`
		Packages []struct {
			Version   string `json:"versionInfo"`
			License   string `json:"licenseDeclared"`
			Locations []struct {
				Type string `json:"referenceType"`
				URL  string `json:"referenceLocator"`
			} `json:"externalRefs"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(read(t, path), &document); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if document.Version != "SPDX-2.3" || document.Name != "allocnet-"+version.Version || document.Creation.Created != "2023-11-14T22:13:20Z" {
		t.Errorf("%s is %s, %s, of %s", path, document.Version, document.Name, document.Creation.Created)
	}
	licenses := map[string]string{}
	for _, p := range document.Packages {
		for _, l := range p.Locations {
			licenses[l.URL+" "+p.Version] = p.License
		}
	}
	if len(modules) < 20 {
		t.Errorf("only %d modules: %v", len(modules), modules)
	}
	for module, v := range modules {
		name := fmt.Sprintf("pkg:golang/%s@%s %s", strings.ToLower(module), v, v)
		if license, found := licenses[name]; !found || license == "" || license == "NOASSERTION" {
			t.Errorf("%s has %s: %t, with the license %q", path, name, found, license)
		}
	}
	own := fmt.Sprintf("pkg:golang/github.com/allocnet/allocnet@%s %[1]s", version.Version)
	if licenses[own] != "MPL-2.0" {
		t.Errorf("%s has %s with the license %q", path, own, licenses[own])
	}
}

// requireDebian holds a Debian package to its architecture, its programs, what else it
// installs, and lintian.
func requireDebian(t *testing.T, path, architecture string, programs map[string][]byte) {
	t.Helper()
	fields := run(t, "dpkg-deb", "--field", path, "Package", "Version", "Architecture")
	if want := "Package: allocnet\nVersion: " + version.Version + "-1\nArchitecture: " + architecture + "\n"; fields != want {
		t.Errorf("%s: %q, want %q", path, fields, want)
	}
	dir := t.TempDir()
	run(t, "dpkg-deb", "--extract", path, dir)
	requireInstalled(t, dir, programs, "lib/systemd/system/allocnet.service", "usr/share/doc/allocnet/copyright",
		"usr/share/doc/allocnet/changelog.Debian.gz", "usr/share/zsh/vendor-completions/_allocnet")
	if architecture != runtime.GOARCH {
		return
	}
	commit := strings.TrimSpace(run(t, "git", "-C", sandbox.Root(), "rev-parse", "HEAD"))
	if says, want := run(t, filepath.Join(dir, "usr/bin/allocnet"), "version"), "allocnet "+version.Version+" (commit "+commit+", "; !strings.HasPrefix(says, want) {
		t.Errorf("%s: its program says %q, want the version of the package and the commit, %q", path, says, want)
	}
	run(t, "gunzip", "--recursive", dir+"/usr/share/man")
	pages, err := filepath.Glob(dir + "/usr/share/man/man?/*")
	if err != nil || len(pages) < 15 {
		t.Errorf("man pages %v, %v", pages, err)
	}
	if out, err := exec.Command("mandoc", append([]string{"-T", "lint", "-W", "warning"}, pages...)...).CombinedOutput(); err != nil {
		t.Errorf("mandoc (install it with: make deps): %v\n%s", err, out)
	}
	if out, err := exec.Command("lintian", "--fail-on", "error", path).CombinedOutput(); err != nil {
		t.Errorf("lintian (install it with: make deps): %v\n%s", err, out)
	}
}

// requireRPM holds an RPM package to its architecture, its programs and what else it
// installs.
func requireRPM(t *testing.T, path, architecture string, programs map[string][]byte) {
	t.Helper()
	const format = "%{NAME} %{VERSION}-%{RELEASE} %{ARCH} %{BUILDHOST}"
	if says, want := run(t, "rpm", "-qp", "--queryformat", format, path), "allocnet "+version.Version+"-1 "+architecture+" localhost"; says != want {
		t.Errorf("%s is %q, want %q", path, says, want)
	}
	if list := run(t, "rpm", "-qp", "--changelog", path); strings.Count(list, "\n- ") < 10 {
		t.Errorf("%s: the changelog is\n%s", path, list)
	}
	if list := run(t, "rpm", "-qp", "--configfiles", path); list != "/etc/allocnet.d/agent.hcl\n/etc/iproute2/rt_protos.d/allocnet.conf\n" {
		t.Errorf("%s: the configuration files are %q", path, list)
	}
	dir := t.TempDir()
	run(t, "rpm", "--install", "--root", dir, "--dbpath", "/db", "--nodeps", "--noscripts", "--ignorearch", path)
	requireInstalled(t, dir, programs, "usr/lib/systemd/system/allocnet.service", "usr/share/licenses/allocnet/LICENSE",
		"usr/share/zsh/site-functions/_allocnet")
}

// requireInstalled holds the files of a package to its programs and to what operators
// look for.
func requireInstalled(t *testing.T, dir string, programs map[string][]byte, more ...string) {
	t.Helper()
	for file, program := range map[string]string{
		"usr/bin/allocnet": "allocnet", "opt/cni/bin/allocnet-cni": "allocnet-cni", "opt/cni/bin/allocnet-cni-engine": "allocnet-cni-engine", "opt/cni/bin/allocnet-ipam": "allocnet-ipam",
	} {
		if !bytes.Equal(read(t, filepath.Join(dir, file)), programs[program]) {
			t.Errorf("%s is another program than that of the archive", file)
		}
	}
	for _, file := range append(more,
		"etc/allocnet.d/agent.hcl", "etc/iproute2/rt_protos.d/allocnet.conf",
		"usr/lib/udev/rules.d/71-allocnet.rules", "usr/lib/systemd/network/00-allocnet.network", "usr/share/man/man1/allocnet-attach.1.gz",
		"usr/share/man/man5/allocnet-agent.hcl.5.gz", "usr/share/man/man5/allocnet-isolation.hcl.5.gz", "usr/share/man/man8/allocnet-cni.8.gz", "usr/share/man/man8/allocnet-ipam.8.gz", "usr/share/bash-completion/completions/allocnet",
		"usr/share/fish/vendor_completions.d/allocnet.fish", "usr/share/doc/allocnet/README.md", "usr/share/doc/allocnet/CHANGELOG.md",
		"usr/share/doc/allocnet/docs/README.md", "usr/share/doc/allocnet/docs/map.svg", "usr/share/doc/allocnet/examples/10-web.conflist",
		"usr/share/doc/allocnet/examples/jobs/extra-networks.nomad.hcl", "usr/share/doc/allocnet/examples/jobs/agent/agent.nomad.hcl",
		"usr/share/doc/allocnet/examples/container/Containerfile", "usr/share/doc/allocnet/examples/grafana/allocnet.json",
		"usr/share/doc/allocnet/examples/prometheus/allocnet.rules.yaml") {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func run(t *testing.T, command ...string) string {
	t.Helper()
	out, err := exec.Command(command[0], command[1:]...).Output()
	if err != nil {
		t.Fatalf("%v: %v", command, err)
	}
	return string(out)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
