// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package conventions

import (
	"path"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	packagedProgram = regexp.MustCompile(`src: "\$\{BIN\}/([a-z-]+)", dst: ([^,]+),`)
	// programPath is a program of allocnet in a directory of the host.
	programPath = regexp.MustCompile(`(?:^|[^\w.}])((?:/[\w.-]+)*/s?bin/(allocnet(?:-[a-z]+)*))\b`)
	// copied is what a page installs from build/bin, and where.
	copied = regexp.MustCompile(`install .*\bbuild/bin/.* (/\S+/)(?:\s|$)|install .*-t (\S+) .*\bbuild/bin/[a-z-]+`)
	built  = regexp.MustCompile(`\bbuild/bin/([a-z-]+)`)
	// placed are files that say where programs are.
	placed = regexp.MustCompile(`\.(md|hcl|service|socket|sh|yaml|rules)$|^(Containerfile|pre[a-z]*|post[a-z]*)$`)
)

// TestProgramPaths: a program is where the packages install it, in each document, unit, job and script.
func TestProgramPaths(t *testing.T) {
	want := map[string]string{}
	for _, m := range packagedProgram.FindAllStringSubmatch(string(read(t, "../../dist/nfpm.yaml")), -1) {
		want[m[1]] = m[2]
	}
	if len(want) != 4 {
		t.Fatalf("dist/nfpm.yaml installs %v, want four programs", want)
	}
	found := 0
	for _, file := range files(t, "../..", placed) {
		for program, is := range programPaths(string(read(t, filepath.Join("../..", file)))) {
			for _, p := range is {
				found++
				if p != want[program] {
					t.Errorf("%s has %s, want %s, as the packages", file, p, want[program])
				}
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d paths of programs", found)
	}
}

// programPaths returns the paths of allocnet's programs in a text, by program.
func programPaths(text string) map[string][]string {
	found := map[string][]string{}
	for _, m := range programPath.FindAllStringSubmatch(text, -1) {
		found[m[2]] = append(found[m[2]], m[1])
	}
	for _, m := range copied.FindAllStringSubmatch(text, -1) {
		for _, program := range built.FindAllStringSubmatch(m[0], -1) {
			found[program[1]] = append(found[program[1]], path.Join(m[1]+m[2], program[1]))
		}
	}
	return found
}

// TestProgramPathsAreFound: in a unit, in a list, and as what is copied.
func TestProgramPathsAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"ExecStart=/usr/bin/allocnet agent":                                      "/usr/bin/allocnet",
		"ExecStartPre=-+/sbin/allocnet\n":                                        "/sbin/allocnet",
		"`/usr/local/bin/allocnet`":                                              "/usr/local/bin/allocnet",
		"install -m 755 build/bin/allocnet /usr/local/bin/\n":                    "/usr/local/bin/allocnet",
		"install -D -m 755 -t /bin build/bin/other build/bin/allocnet # comment": "/bin/allocnet",
		"install -m 755 build/bin/allocnet build/bin/other /opt/bin/ # comment":  "/opt/bin/allocnet",
		"make build; build/bin/allocnet":                                         "",
		"/usr/bin/allocnet-other":                                                "",
	} {
		got := programPaths(text)["allocnet"]
		if want == "" && got != nil || want != "" && (len(got) != 1 || got[0] != want) {
			t.Errorf("%q has %v, want %q", text, got, want)
		}
	}
}
