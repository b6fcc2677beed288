// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package programs runs Go's test command as contributors do: what it keeps of earlier runs is right.
package programs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// checkout is a copy of the source, whose tests are those of one small package of e2e.
type checkout struct {
	*testing.T
	dir string
}

func newCheckout(t *testing.T) *checkout {
	t.Helper()
	c := &checkout{t, t.TempDir()}
	root := sandbox.Root()
	c.must("sh", "-ec", `cd "$1" && git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$2"`, "sh", root, c.dir)
	c.must("mkdir", c.dir+"/build")
	c.must("ln", "-s", filepath.Join(root, "build/cni"), c.dir+"/build/cni")
	return c
}

// must runs a command in the checkout, without the hash of this one's programs.
func (c *checkout) must(words ...string) string {
	c.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "ALLOCNET_PROGRAMS=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

// isCached runs the tests of the package, and returns whether the result is an earlier one.
func (c *checkout) isCached(hash string) bool {
	c.Helper()
	return strings.Contains(c.must("env", "ALLOCNET_PROGRAMS="+strings.TrimSpace(hash), "go", "test", "-vet=off", "./e2e/acd"), "(cached)")
}

// build returns the hash of the programs.
func (c *checkout) build() string {
	c.Helper()
	return c.must("go", "run", "./internal/sandbox/programs")
}

// TestLongChangedProgram: the tests of e2e, which link nothing of cmd/, run again when a program has changed,
// and only then. Without the hash of the programs they always run.
func TestLongChangedProgram(t *testing.T) {
	c := newCheckout(t)
	first := c.build()
	if c.isCached(first) {
		t.Fatal("the first run is an earlier one")
	}
	if again := c.build(); again != first || !c.isCached(again) {
		t.Errorf("nothing has changed, and the tests run again: programs %s, then %s", first, again)
	}
	file := filepath.Join(c.dir, "cmd/allocnet/version.go")
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(source), `"version"`, `"versions"`, 1)
	if changed == string(source) {
		t.Fatalf("%s lacks the constant that the test changes", file)
	}
	sandbox.WriteFile(t, file, changed)
	second := c.build()
	if second == first || c.isCached(second) {
		t.Errorf("cmd/allocnet has changed, and the tests do not run again: programs %s, then %s", first, second)
	}
	for range 2 {
		if c.isCached("") {
			t.Error("without the hash, the result is an earlier one")
		}
	}
}
