// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestOnlyAPIOfNomadIsLinked: of Nomad the programs and tests have only the client of
// its HTTP API, a module of its own that is open source in every version.
func TestOnlyAPIOfNomadIsLinked(t *testing.T) {
	if _, err := os.ReadFile("../../go.mod"); err != nil { // a package of another module changes it, and so this test's cache
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-deps", "-test", "-f", "{{with .Module}}{{.Path}}{{end}}", "./...")
	list.Dir, list.Stderr = "../..", os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var linked []string
	for path := range strings.Lines(string(out)) {
		if path = strings.TrimSpace(path); strings.HasPrefix(path, "github.com/hashicorp/nomad") {
			linked = append(linked, path)
		}
	}
	slices.Sort(linked)
	if linked = slices.Compact(linked); !slices.Equal(linked, []string{"github.com/hashicorp/nomad/api"}) {
		t.Errorf("linked are packages of %v, want of github.com/hashicorp/nomad/api alone", linked)
	}
}
