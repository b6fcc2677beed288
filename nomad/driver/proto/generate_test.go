// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package proto

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestGenerated: the generated code is that of the definitions.
func TestGenerated(t *testing.T) {
	const folder = "nomad/driver/proto"
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("*.proto")
	if err != nil || len(sources) == 0 {
		t.Fatalf("definitions %v, %v", sources, err)
	}
	generator, err := filepath.Glob(filepath.Join(root, "tools/protogen/*"))
	if err != nil || len(generator) == 0 {
		t.Fatalf("generator %v, %v", generator, err)
	}
	for _, path := range slices.Concat(sources, generator) {
		if _, err := os.ReadFile(path); err != nil { // a change invalidates the cached result
			t.Fatal(err)
		}
	}
	out := t.TempDir()
	command := []string{"run", "-C", filepath.Join(root, "tools/protogen"), ".", root, out}
	for _, name := range sources {
		command = append(command, filepath.Join(folder, name))
	}
	if text, err := exec.Command("go", command...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	want, err := filepath.Glob(filepath.Join(out, folder, "*.pb.go"))
	if err != nil {
		t.Fatal(err)
	}
	if present, err := filepath.Glob("*.pb.go"); err != nil || len(present) != len(want) || len(want) != len(sources) {
		t.Errorf("generated are %v, and present %v (%v): run: make proto", want, present, err)
	}
	for _, path := range want {
		generated, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if present, err := os.ReadFile(filepath.Base(path)); err != nil || !bytes.Equal(present, generated) {
			t.Errorf("%s is not what its definitions generate (%v): run: make proto", filepath.Base(path), err)
		}
	}
}
