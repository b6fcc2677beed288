// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// PluginBytes is the size of a CNI plugin at most: it is read for every call.
const PluginBytes = 14_500_000

// Linked says what the program in the directory of a test links. A plugin is executed for every
// call, and each package makes it start later.
type Linked struct {
	// Forbidden are packages that it must not link, with all below them.
	Forbidden []string
	// Light are packages below the forbidden ones that it may link.
	Light []string
	// Modules are all that it links except the standard library and allocnet.
	Modules []string
}

// RequireLinked fails the test if the program links anything else.
func RequireLinked(t *testing.T, want Linked) {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}} {{with .Module}}{{.Path}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		path, module, _ := strings.Cut(line, " ")
		if want.forbids(path) {
			t.Errorf("%s is linked", path)
		}
		if module != "" && module != "github.com/allocnet/allocnet" && !slices.Contains(want.Modules, module) {
			t.Errorf("%s is linked, of a module that is not on the list: %s", path, module)
		}
	}
}

func (l Linked) forbids(path string) bool {
	return !slices.Contains(l.Light, path) && slices.ContainsFunc(l.Forbidden, func(banned string) bool {
		return path == banned || strings.HasPrefix(path, banned+"/")
	})
}

// RequireSmall builds programs as make build does, and fails the test if one is bigger than most says, or
// if the plugin among them does not say what it is. It returns the path of the plugin.
func RequireSmall(t *testing.T, plugin string, most map[string]int64) string {
	t.Helper()
	dir := t.TempDir()
	for name, bytes := range most {
		path := filepath.Join(dir, name)
		if err := compile(path, released, releasedFlags, []string{"cmd/" + name}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > bytes {
			t.Errorf("%s has %d bytes, want at most %d", name, info.Size(), bytes)
		}
	}
	binary := filepath.Join(dir, plugin)
	cmd := exec.Command(binary)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if want := "CNI " + plugin + " plugin v"; err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("without arguments: %v, %q, want %q first", err, out, want)
	}
	return binary
}
