// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package license

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// standardLibrary stands for the module that the packages of Go itself are of, as in the
// bill of materials. It has one license: others in it are of what only an experiment of
// Go links.
const standardLibrary = "go"

// Module is a module with the packages of it that a build uses.
type Module struct {
	// Path is the path by which the module is required, also of one that is replaced.
	Path, Version string
	root          string
	dirs          []string
}

func (m *Module) String() string { return strings.TrimSuffix(m.Path+"@"+m.Version, "@") }

// Modules returns the modules by their path whose packages `go list -deps` with these
// arguments lists, in a directory. This downloads what is missing of them, as the build
// does, and nothing else.
func Modules(dir string, environ []string, args ...string) (map[string]*Module, error) {
	const format = "{{if .Standard}}" + standardLibrary + "\t\t{{.Root}}\t{{.Dir}}{{else}}{{with .Module}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}\t{{.Dir}}{{end}}"
	list := exec.Command("go", append([]string{"list", "-deps", "-f", format}, args...)...)
	list.Dir, list.Env = dir, append(os.Environ(), environ...)
	var problems strings.Builder
	list.Stderr = &problems
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w: %s", dir, strings.Join(list.Args, " "), err, problems.String())
	}
	modules := map[string]*Module{}
	for line := range strings.Lines(string(out)) {
		field := strings.Split(strings.TrimSpace(line), "\t")
		if len(field) != 4 {
			return nil, fmt.Errorf("%s: %s: a line is %q", dir, strings.Join(list.Args, " "), line)
		}
		m := modules[field[0]]
		if m == nil {
			m = &Module{Path: field[0], Version: field[1], root: field[2]}
			modules[m.Path] = m
		}
		if m.Path != standardLibrary {
			m.dirs = append(m.dirs, field[3])
		}
	}
	return modules, nil
}
