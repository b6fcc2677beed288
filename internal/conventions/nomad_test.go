// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package conventions

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestInstalledNomad: make test-nomad takes a Nomad by any path, and nothing else.
func TestInstalledNomad(t *testing.T) {
	read(t, "../../tools/nomad-program.sh") // a change of it invalidates the cached result
	dir := filepath.Join(t.TempDir(), `with "a blank`)
	nomad, other := filepath.Join(dir, "nomad"), filepath.Join(dir, "other")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{nomad: "Nomad v1.6.2", other: "Consul v1.6.2"} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho "+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		nomad: nomad + "\n", dir + "/../" + filepath.Base(dir) + "/nomad": nomad + "\n",
		other: "", dir: "", "": "", "/bin/true": "", "/bin/false": "", filepath.Join(dir, "none"): "", "GNUmakefile": "",
	} {
		check := exec.Command("tools/nomad-program.sh", path)
		check.Dir = "../.."
		var message strings.Builder
		check.Stderr = &message
		out, err := check.Output()
		refused := err != nil && strings.Contains(message.String(), `"`+path+`" is no Nomad`)
		if string(out) != want || refused != (want == "") {
			t.Errorf("%q: %q, %v, %s, want %q", path, out, err, message.String(), want)
		}
	}
}

// TestInstalledNomadComesFirst: make test-nomad looks at the program before it installs and builds what the tests need.
func TestInstalledNomadComesFirst(t *testing.T) {
	first := regexp.MustCompile(`(?m)^test-nomad:( [^#]*)?##.*\n\t@\./tools/nomad-program\.sh "\$\$\{NOMAD-\}" `)
	if m := first.FindSubmatch(read(t, "../../GNUmakefile")); m == nil || strings.TrimSpace(string(m[1])) != "" {
		t.Error("GNUmakefile: want no prerequisite of test-nomad, and tools/nomad-program.sh as the first line")
	}
}
