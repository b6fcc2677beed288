// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/roottest"
)

// result is what the tests said of a mutant.
type result string

const (
	killed     result = "killed"
	killedRoot result = "killed with root" // by none of the tests that make check runs
	survived   result = "SURVIVED"
	equivalent result = "accepted"
)

// maxMemory is what a mutant may use that appends for ever.
const maxMemory = 4 << 30

// packageTests tests mutants of a package.
type packageTests struct {
	dir, temporary string
	// tested are the packages whose tests are run.
	tested []string
	limit  time.Duration
	output bytes.Buffer // of the last tests
}

// testsOf returns the packages that test one: itself, and the one that it is a part of, as hook has the tests of hook/internal/remove.
func testsOf(dir string) (tested []string) {
	if tests, _ := filepath.Glob(filepath.Join(dir, "*_test.go")); len(tests) > 0 { // the pattern is correct
		tested = append(tested, dir)
	}
	if whole, _, isPart := strings.Cut(dir, "/internal/"); isPart {
		tested = append(tested, whole)
	}
	return tested
}

// newPackage builds the tests of a package once, with all mutants of the list that can be built, which it returns. It fails
// if the tests fail without a mutant.
func newPackage(ctx context.Context, dir string, mutants []mutant) (*packageTests, []mutant, error) {
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: maxMemory, Max: maxMemory}); err != nil {
		return nil, nil, err
	}
	temporary, err := os.MkdirTemp("/tmp", "mutants-") // tests look at their program, and their sandbox covers that of this one
	if err != nil {
		return nil, nil, err
	}
	p := &packageTests{dir: dir, temporary: temporary, tested: testsOf(dir), limit: 10 * time.Minute}
	if mutants, err = p.build(ctx, mutants); err != nil {
		p.close()
		return nil, nil, err
	}
	began := time.Now()
	if got := p.test(ctx, 0); got != survived {
		p.close()
		return nil, nil, fmt.Errorf("its tests fail without a mutant: %s", p.output.Bytes())
	}
	p.limit = 20*time.Second + 5*time.Since(began)
	return p, mutants, nil
}

func (p *packageTests) close() { _ = os.RemoveAll(p.temporary) } // it is of /tmp

// place matches where the compiler found an error.
var place = regexp.MustCompile(`(?m)^(?:.*/)?([^/\s]+\.go):(\d+):`)

// build leaves out the mutants of the lines that the compiler refuses, as the type of a value is not known here.
func (p *packageTests) build(ctx context.Context, mutants []mutant) ([]mutant, error) {
	for {
		overlay, err := p.overlay(mutants)
		if err != nil {
			return nil, err
		}
		output, err := p.compile(ctx, overlay)
		if err == nil {
			return mutants, nil
		}
		refused := map[string]bool{}
		for _, m := range place.FindAllStringSubmatch(string(output), -1) {
			refused[m[1]+":"+m[2]] = true
		}
		before := len(mutants)
		mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return refused[fmt.Sprintf("%s:%d", filepath.Base(m.path), m.line)] })
		if len(mutants) == before {
			return nil, fmt.Errorf("it does not build: %s", output)
		}
	}
}

// compile builds the test programs, and returns what the compiler says.
func (p *packageTests) compile(ctx context.Context, overlay string) (output []byte, err error) {
	for _, tested := range p.tested {
		output, err = exec.CommandContext(ctx, "go", "test", "-c", "-gcflags=-e", "-overlay", overlay, "-o", p.program(tested), "./"+tested).CombinedOutput()
		if err != nil {
			break
		}
	}
	return output, err
}

// overlay writes the changed files of a package, and returns the file that tells go of them.
func (p *packageTests) overlay(mutants []mutant) (string, error) {
	overlay := filepath.Join(p.temporary, "overlay.json")
	changed := map[string][]byte{}
	for _, m := range mutants {
		if changed[m.path] != nil {
			continue
		}
		source, err := os.ReadFile(m.path)
		if err != nil {
			return "", err
		}
		changed[m.path] = instrument(m.path, source, mutants)
		file, err := parser.ParseFile(token.NewFileSet(), m.path, source, parser.PackageClauseOnly)
		if err != nil {
			return "", err
		}
		changed[filepath.Join(p.dir, "mutant_helpers.go")] = fmt.Appendf(nil, helpers, file.Name)
	}
	replace := map[string]string{}
	for path, data := range changed {
		whole, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		replace[whole] = filepath.Join(p.temporary, filepath.Base(path))
		if err := os.WriteFile(replace[whole], data, 0o600); err != nil {
			return "", err
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, data, 0o600)
}

func (p *packageTests) program(tested string) string {
	return filepath.Join(p.temporary, strings.ReplaceAll(tested, "/", "-")+".test")
}

// test runs the tests with a mutant, first those that need no root.
func (p *packageTests) test(ctx context.Context, number int) result {
	if !p.pass(ctx, number, "-test.skip=^TestRoot") {
		return killed
	}
	if roottest.IsRoot() && !p.pass(ctx, number, "-test.run=^TestRoot") {
		return killedRoot
	}
	return survived
}

// pass runs the tests of each package until one fails.
func (p *packageTests) pass(ctx context.Context, number int, selection string) bool {
	return !slices.ContainsFunc(p.tested, func(tested string) bool { return !p.passIn(ctx, tested, number, selection) })
}

// passIn runs tests of a package in a sandbox of their own, as go test does.
func (p *packageTests) passIn(ctx context.Context, tested string, number int, selection string) bool {
	ctx, stop := context.WithTimeout(ctx, p.limit+time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, p.program(tested), "-test.short", "-test.failfast", "-test.timeout="+p.limit.String(), selection)
	cmd.Dir = tested
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, roottest.Sandbox+"=") }), fmt.Sprintf("MUTANT=%d", number))
	cmd.WaitDelay = time.Second
	p.output.Reset()
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	return cmd.Run() == nil
}
