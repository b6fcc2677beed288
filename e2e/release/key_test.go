// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package release

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestUnusableKey: a key that cannot sign is an error before a release is built, and a repository that hosts use stays
// as it was signed.
func TestUnusableKey(t *testing.T) {
	keys := t.TempDir()
	key, err := sandbox.NewSigningKey(keys)
	if err != nil {
		t.Fatal(err)
	}
	repository := t.TempDir()
	write(t, repository+"/SHA256SUMS", "")
	sign := func(environ []string) (string, error) {
		cmd := exec.Command("../../dist/repository.sh", repository)
		cmd.Env = append(release("").Env, environ...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := sign(key); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	signed := contents(t, repository)
	write(t, keys+"/other", "other")
	write(t, keys+"/empty", "")
	for name, test := range map[string]struct {
		environ []string
		want    string
	}{
		"a passphrase alone": {key[1:], "SIGNING_KEY is not set"},
		"wrong passphrase":   {append(key, "SIGNING_PASSPHRASE="+keys+"/other"), "Bad passphrase"},
		"no passphrase":      {key[:1], "signing failed"},
		"no key in the file": {append(key, "SIGNING_KEY="+keys+"/empty"), "no valid OpenPGP data"},
		"no such file":       {append(key, "SIGNING_KEY="+keys+"/missing"), "No such file"},
		"a relative path":    {append(key, "SIGNING_KEY=key"), "absolute path"},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := sign(test.environ); err == nil || !strings.Contains(out, test.want) {
				t.Errorf("a repository: %v, %s, want an error with %q", err, out, test.want)
			}
			if diff := gocmp.Diff(signed, contents(t, repository)); diff != "" {
				t.Errorf("the repository is another one (-before +after):\n%s", diff)
			}
			dir := t.TempDir()
			build := release(dir)
			build.Env = append(build.Env, test.environ...)
			if out, err := build.CombinedOutput(); err == nil || !strings.Contains(string(out), test.want) {
				t.Errorf("a release: %v, %s, want an error with %q", err, out, test.want)
			}
			if built := contents(t, dir); len(built) > 0 {
				t.Errorf("built %v", built)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// contents returns the files below a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[path] = string(read(t, path))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
