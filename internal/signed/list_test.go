// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package signed

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// gpgv takes a signature that is the text itself, if the keyring is there. The real one verifies in e2e/systemd.
const gpgv = `#!/bin/sh
[ "$1" = --keyring ] && [ "$4" = - ] && [ -f "$2" ] && cmp -s "$3" - && exit
echo "BAD signature" >&2
exit 1
`

const (
	program = "/usr/bin/allocnet"
	plugin  = "/opt/cni/bin/allocnet-cni"
)

// install returns a root directory with two programs and their list.
func install(t *testing.T) string {
	t.Helper()
	root, bin := t.TempDir(), t.TempDir()
	write(t, bin+"/gpgv", gpgv)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	write(t, root+program, "program")
	write(t, root+plugin, "plugin")
	sign(t, root, checksum("program")+"  "+program+"\n"+checksum("plugin")+"  "+plugin+"\n")
	write(t, root+keyring, "key")
	return root
}

func sign(t *testing.T, root, text string) {
	t.Helper()
	write(t, root+list, text)
	write(t, root+list+".asc", text)
}

func checksum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestPrograms: what differs from the list is told, and a program beside it, too.
func TestPrograms(t *testing.T) {
	root := install(t)
	requirePrograms(t, root, program, Program{program, same}, Program{plugin, same})
	requirePrograms(t, root, "/usr/local/bin/allocnet", Program{program, same}, Program{plugin, same}, Program{"/usr/local/bin/allocnet", unlisted})
	write(t, root+plugin, "plugin of another release")
	requirePrograms(t, root, program, Program{program, same}, Program{plugin, changed})
	if err := os.Remove(root + plugin); err != nil {
		t.Fatal(err)
	}
	requirePrograms(t, root, program, Program{program, same}, Program{plugin, missing})
}

func requirePrograms(t *testing.T, root, self string, want ...Program) {
	t.Helper()
	got, err := Verify(t.Context(), root, self)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for _, p := range got {
		if p.OK() != (p.State == same) {
			t.Errorf("%v is the release's: %t", p, p.OK())
		}
	}
}

// TestRefused: without a list, its signature and the key, nothing is compared, nor with lines that are no checksums.
func TestRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(root string)
		want   string
	}{
		"no list":         {func(root string) { remove(t, root+list) }, "a build without a signature has none"},
		"no signature":    {func(root string) { remove(t, root+list+".asc") }, "BAD signature"},
		"no key":          {func(root string) { remove(t, root+keyring) }, "BAD signature"},
		"changed":         {func(root string) { write(t, root+list, checksum("other")+"  "+program+"\n") }, "BAD signature"},
		"no gpgv":         {func(string) { t.Setenv("PATH", t.TempDir()) }, "install gpgv"},
		"empty":           {func(root string) { sign(t, root, "") }, `line 1 is ""`},
		"relative path":   {func(root string) { sign(t, root, checksum("program")+"  usr/bin/allocnet\n") }, "absolute path"},
		"path upwards":    {func(root string) { sign(t, root, checksum("program")+"  /usr/../etc/shadow\n") }, "absolute path"},
		"short checksum":  {func(root string) { sign(t, root, checksum("program")[1:]+"  "+program+"\n") }, "SHA-256"},
		"an empty line":   {func(root string) { sign(t, root, checksum("program")+"  "+program+"\n\n") }, `line 2 is ""`},
		"a directory":     {func(root string) { sign(t, root, checksum("program")+"  /usr\n") }, "/usr"},
		"not a text file": {func(root string) { remove(t, root+list); _ = os.Mkdir(root+list, 0o700) }, "programs.sha256"},
	} {
		t.Run(name, func(t *testing.T) {
			root := install(t)
			test.change(root)
			if got, err := Verify(t.Context(), root, program); err == nil || !strings.Contains(err.Error(), test.want) || got != nil {
				t.Errorf("%v, %v, want an error with %q", got, err, test.want)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
