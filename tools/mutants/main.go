// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command mutants changes lines that delete, refuse or decide who lives, one at a time, and runs the unit tests of
// their package: a mutant that survives is a behaviour that no test holds. It changes no file of the source, and with
// root it runs in a sandbox. CONTRIBUTING.md describes it.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox"
)

func main() {
	count := flag.Int("count", 15, "how many mutants of each package are tried; of a file or line, all are")
	seed := flag.Int("seed", 1, "which ones")
	flag.Parse()
	os.Exit(sandbox.MainIfRoot(func() int { return run(*count, *seed) }))
}

func run(count, seed int) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	failed := 0
	for _, argument := range flag.Args() {
		if strings.HasPrefix(argument, "-test.") { // the sandbox's
			continue
		}
		new, err := attempt(ctx, argument, count, seed)
		if err != nil {
			_, _ = fmt.Fprintf(os.Stderr, "%s: %v\n", argument, err)
			return 1
		}
		failed += new
	}
	if failed > 0 {
		_, _ = fmt.Fprintf(os.Stderr, "%d results differ from %s: test what survives, or add it with the reason\n", failed, acceptedFile)
		return 1
	}
	return 0
}

// attempt runs the tests with mutants of a package, of a file, or of FILE:LINE, and returns how many results differ from the accepted ones.
func attempt(ctx context.Context, argument string, count, seed int) (failed int, err error) {
	mutants, err := mutantsAt(argument)
	if err != nil {
		return 0, err
	}
	accepted, err := readAccepted()
	if err != nil {
		return 0, err
	}
	if !strings.Contains(argument, ".go") {
		mutants = choose(mutants, count, seed)
	}
	p, mutants, err := newPackage(ctx, filepath.Dir(mutants[0].path), mutants)
	if err != nil {
		return 0, err
	}
	defer p.close()
	counts := map[result]int{}
	for i, m := range mutants {
		got := p.test(ctx, i+1)
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if _, known := accepted[m.String()]; known && got == survived {
			got = equivalent
		} else if known || got == survived {
			failed++
		}
		counts[got]++
		fmt.Printf("%-16s %s:%d %s: %s\n", got, m.path, m.line, m.function, m.change)
	}
	fmt.Printf("%s: %v\n", argument, counts)
	return failed, nil
}

// mutantsAt returns the mutants of an argument, in order: all of a line, else those of what decides.
func mutantsAt(argument string) ([]mutant, error) {
	path, number, _ := strings.Cut(filepath.Clean(argument), ":")
	line, err := strconv.Atoi(cmp.Or(number, "0"))
	if err != nil {
		return nil, fmt.Errorf("line %q is no number", number)
	}
	paths := []string{path}
	if filepath.Ext(path) != ".go" {
		if paths, err = filepath.Glob(filepath.Join(path, "*.go")); err != nil {
			return nil, err
		}
	}
	var all []mutant
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		mutants, err := mutantsOf(path, source)
		if err != nil {
			return nil, err
		}
		all = append(all, mutants...)
	}
	all = slices.DeleteFunc(all, func(m mutant) bool { return line != 0 && m.line != line || line == 0 && !m.decides })
	if len(all) == 0 {
		return nil, fmt.Errorf("it has no mutants; want a directory, FILE.go or FILE.go:LINE")
	}
	return all, nil
}

// choose returns some of the mutants, in order. Another change of a file leaves most of them.
func choose(mutants []mutant, count, seed int) []mutant {
	ranks := make([]uint64, len(mutants))
	for i, m := range mutants {
		ranks[i] = rank(m, seed)
	}
	slices.Sort(ranks)
	last := ranks[min(count, len(ranks))-1]
	return slices.DeleteFunc(mutants, func(m mutant) bool { return rank(m, seed) > last })
}

func rank(m mutant, seed int) uint64 {
	sum := fnv.New64a()
	_, _ = fmt.Fprintf(sum, "%s\n%d", m, seed) // a hash does not fail
	return sum.Sum64()
}
