// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestShare: each test is in one part, whatever their number and that of the parts, also if the name of one
// begins with that of another.
func TestShare(t *testing.T) {
	for count := 2; count < 9; count++ {
		for _, size := range []int{count, count + 1, 5*count + 3, 400} {
			var names []string
			for i := range size {
				names = append(names, fmt.Sprint("Test", i))
			}
			selected := map[string]int{}
			for _, arguments := range share(names, count) {
				pattern := regexp.MustCompile(strings.TrimPrefix(arguments[0], "-test.run="))
				for _, name := range names {
					if pattern.MatchString(name) {
						selected[name]++
					}
				}
			}
			for _, name := range names {
				if selected[name] != 1 {
					t.Errorf("%d parts of %d tests: %s is in %d of them", count, size, name, selected[name])
				}
			}
		}
	}
}

// TestList: what a test program lists includes examples and fuzz targets, which run as tests.
func TestList(t *testing.T) {
	args := os.Args
	t.Cleanup(func() { os.Args = args })
	os.Args = args[:1] // the log of this test is its own
	names, err := list("^(TestShare|TestList|Fuzz.*|Example.*|Benchmark.*)$")
	if want := []string{"TestShare", "TestList", "FuzzListed", "ExampleMain"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("listed %q, %v; want %q", names, err, want)
	}
}

func FuzzListed(f *testing.F) { f.Fuzz(func(*testing.T, int) {}) }

func ExampleMain() {
	fmt.Println("listed")
	// Output: listed
}

func BenchmarkListed(*testing.B) {}

// TestPartFails: the failure of one part, whichever it is, is that of all, and what each has printed is there.
func TestPartFails(t *testing.T) {
	for failing := range 3 {
		for _, fault := range []error{nil, errors.New("it does not start")} {
			var out strings.Builder
			code, err := runParts(3, &out, func(i int, output io.Writer) (int, error) {
				if output != nil {
					_, _ = fmt.Fprintf(output, "part %d\n", i)
				}
				if i == failing {
					return 2, fault
				}
				return 0, nil
			})
			if code != 2 || !errors.Is(err, fault) || out.String() != "part 1\npart 2\n" {
				t.Errorf("part %d fails with %v: code %d, %v, printed %q", failing, fault, code, err, &out)
			}
		}
	}
}

// TestExitCodes: tests that are killed have failed.
func TestExitCodes(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 3": 3, "kill -9 $$": 1} {
		if code, err := exitCode(exec.Command("sh", "-c", script).Run()); code != want || err != nil {
			t.Errorf("%s: code %d, %v; want %d", script, code, err, want)
		}
	}
	if code, err := exitCode(exec.Command("/missing").Run()); code != 1 || err == nil {
		t.Errorf("a program that is missing: code %d, %v", code, err)
	}
	for status, want := range map[unix.WaitStatus]int{0: 0, 3 << 8: 3, 9: 137} {
		var log bytes.Buffer
		if code := codeOf(status, &log); code != want || strings.Contains(log.String(), "ended by SIGKILL") != status.Signaled() {
			t.Errorf("status %#x: code %d, %q; want %d", uint32(status), code, &log, want)
		}
	}
}
