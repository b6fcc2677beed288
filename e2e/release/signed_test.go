// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package release

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// requireSigned builds once more, for this machine, with a key: what is not a package has the same bytes, and each file
// is signed, or has a checksum in a file that is. e2e/systemd has apt and RPM install of such a repository.
func requireSigned(t *testing.T, unsigned string) {
	t.Helper()
	dir := t.TempDir()
	key, err := sandbox.NewSigningKey(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	build(t, dir, append(key, "ARCHITECTURES="+runtime.GOARCH)...)
	for _, pattern := range []string{"*.tar.gz", "*.spdx.json", "*.sha256"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) != 1 || !bytes.Equal(read(t, found[0]), read(t, filepath.Join(unsigned, filepath.Base(found[0])))) {
			t.Errorf("%v (%v) is not the %s of the release without a key", found, err, pattern)
		}
	}
	requireSignatures(t, dir)
	requireYum(t, dir)
}

func requireSignatures(t *testing.T, dir string) {
	t.Helper()
	keyring := filepath.Join(t.TempDir(), "keyring")
	run(t, "gpg", "--homedir", t.TempDir(), "--batch", "--dearmor", "--output", keyring, filepath.Join(dir, "allocnet.asc"))
	run(t, "gpgv", "--keyring", keyring, filepath.Join(dir, "InRelease"))
	for _, file := range []string{"SHA256SUMS", "repodata/repomd.xml", filepath.Base(list(t, dir))} {
		run(t, "gpgv", "--keyring", keyring, filepath.Join(dir, file+".asc"), filepath.Join(dir, file))
	}
	run(t, "sh", "-ec", `cd "$0" && sha256sum --check --strict --quiet SHA256SUMS`, dir)
}

// list is the list of the programs of the one architecture of a release.
func list(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.sha256"))
	if err != nil || len(found) != 1 {
		t.Fatalf("lists of programs: %v, %v", found, err)
	}
	return found[0]
}

// requireYum follows the checksums from the signed index to the package, as dnf does.
func requireYum(t *testing.T, dir string) {
	t.Helper()
	index := string(read(t, filepath.Join(dir, "repodata/repomd.xml")))
	m := regexp.MustCompile(`(?s)<data type="primary">\s*<checksum type="sha256">(\w+)</checksum>.*?<location href="([^"]+)"`).FindStringSubmatch(index)
	if m == nil {
		t.Fatalf("no list of packages in\n%s", index)
	}
	primary := filepath.Join(dir, m[2])
	if got := sha256.Sum256(read(t, primary)); hex.EncodeToString(got[:]) != m[1] {
		t.Errorf("%s has another checksum", m[2])
	}
	packages, err := filepath.Glob(filepath.Join(dir, "*.rpm"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("packages %v, %v", packages, err)
	}
	sum := sha256.Sum256(read(t, packages[0]))
	unpacked := run(t, "sh", "-c", `case $0 in *.zst) zstd -dc "$0" ;; *) gzip -dc "$0" ;; esac`, primary)
	if !strings.Contains(unpacked, hex.EncodeToString(sum[:])) || !strings.Contains(unpacked, `href="`+filepath.Base(packages[0])+`"`) {
		t.Errorf("%s does not have %s:\n%s", m[2], packages[0], unpacked)
	}
}
