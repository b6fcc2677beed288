// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package conventions

import (
	"regexp"
	"strings"
	"testing"
)

// TestSourcesOfPrograms: what a program reads of the module for a test is known to Go, which else keeps the result
// when it has changed. MainOutside names such files to Go itself.
func TestSourcesOfPrograms(t *testing.T) {
	sources := folders(t, `_test\.go$`)
	if len(sources) < 40 {
		t.Errorf("only %d packages have tests", len(sources))
	}
	for dir, source := range sources {
		for _, call := range unknownSources(source) {
			t.Errorf("%s: %s: want sandbox.Source(t, path), or a function of package os that reads it", dir, call)
		}
	}
	const code = "sandbox.Run(t, \"cat\", \"../../docs/\"+name)\nexec.Command(\"../dist/package.sh\")\na.podman(\"build\", dir(x), \"../a\")\n" +
		"sandbox.Run(t, \"cat\", sandbox.Source(t, \"../a\"))\nh.shell(example(t, \"../a\"))\nread(t, \"../a\")\nh.refuse(2, \"../x\")\n"
	requireSame(t, "code", unknownSources(code), strings.Split(code, "\n")[:3])
	requireSame(t, "code", unknownSources(code+"os.Exit(sandbox.MainOutside(m.Run, \"dist\"))\n"), nil)
}

// program matches the start of a program with a file of the module.
var program = regexp.MustCompile(`.*\b(?:Run|Command(?:Context)?|[nN]omad|podman|must|shell)\((?:[^()\n]|\([^()\n]*\))*"\.\./.*`)

// unknownSources returns the lines that pass a file of the module to a program, and to nothing that Go knows.
func unknownSources(source string) []string {
	if strings.Contains(source, "sandbox.MainOutside(") {
		return nil
	}
	return program.FindAllString(source, -1)
}
