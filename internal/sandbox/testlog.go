// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// variables are the names of the variables by which tests are configured. A test program may read
// them before Go notes what it reads, or leave them to the programs that it starts.
var variables = struct {
	sync.Mutex
	names map[string]bool
}{names: map[string]bool{
	hashVariable: true, raceVariable: true, ipamVariable: true, executorVariable: true, pluginsVariable: true, nomadVariable: true,
}}

// nomadVariable names another Nomad than that of make nomad.
const nomadVariable = "ALLOCNET_TEST_NOMAD"

// usesForeign is whether the tests use programs outside of the module, which Go does not look at.
func usesForeign() bool {
	for _, name := range []string{nomadVariable, pluginsVariable} {
		if path := os.Getenv(name); path != "" && !strings.HasPrefix(path, Root()+"/") {
			return true
		}
	}
	return false
}

// Variable returns a variable by which tests are configured. Go keeps the result of a test only while it
// is the same, also if it is read before the tests run.
func Variable(name string) string {
	variables.Lock()
	defer variables.Unlock()
	variables.names[name] = true
	return os.Getenv(name)
}

// testLog is the file in which a test program tells Go which files and variables its result depends on.
type testLog string

// of returns the argument that names the log of a part.
func (l testLog) of(part int) string {
	if l == "" {
		return "-test.testlogfile="
	}
	return "-test.testlogfile=" + l.part(part)
}

func (l testLog) part(i int) string { return fmt.Sprintf("%s.%d", string(l), i) }

func (l testLog) join(parts int) error {
	var logs []string
	for i := range parts {
		logs = append(logs, l.part(i))
	}
	return l.write(logs)
}

const testLogHeader = "# test log\n"

// write writes what the logs have, and what they lack: variables, and the files of programs that tests
// start. The programs under test are there by their hash, or, if this process has built them or another
// one has meanwhile, by a file that is too new for Go to keep the result. So are programs outside of the module.
func (l testLog) write(logs []string, files ...string) error {
	if l == "" {
		return nil
	}
	var text bytes.Buffer
	text.WriteString(testLogHeader)
	for _, log := range logs {
		part, err := os.ReadFile(log)
		if err != nil { // the part has not come so far; it has failed
			continue
		}
		text.Write(bytes.TrimPrefix(part, []byte(testLogHeader)))
	}
	variables.Lock()
	defer variables.Unlock()
	for _, name := range slices.Sorted(maps.Keys(variables.names)) {
		fmt.Fprintf(&text, "getenv %s\n", name)
	}
	files = append(files, PluginDir(), filepath.Join(Root(), "build", "nomad", "nomad"))
	hash, err := hashPrograms()
	if usesPrograms() && (err != nil || hash != os.Getenv(hashVariable)) || usesForeign() {
		fresh, err := freshFile()
		if err != nil {
			return err
		}
		files = append(files, fresh)
	}
	for _, file := range files {
		fmt.Fprintf(&text, "open %s\n", file)
	}
	return os.WriteFile(string(l), text.Bytes(), 0o644)
}

// freshFile returns a file that is new whenever Go looks at it: it is of tomorrow, because Go may come
// to it late on a busy machine, and would keep the result then.
func freshFile() (string, error) {
	path, tomorrow := programDir()+".fresh", time.Now().Add(24*time.Hour)
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		return "", err
	}
	return path, os.Chtimes(path, tomorrow, tomorrow)
}

// MainOutside runs a program's tests on the machine itself, and returns their exit code. The result
// depends on the programs under test, and on the files below paths of the module, which only programs
// read that the tests start.
func MainOutside(run func() int, paths ...string) int {
	code, err := runOutside(run, paths)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
	}
	return code
}

func runOutside(run func() int, paths []string) (int, error) {
	if err := errors.Join(readyPrograms(), askForFamilies()); err != nil {
		return 1, err
	}
	var files []string
	for _, path := range paths {
		err := filepath.WalkDir(filepath.Join(Root(), path), func(path string, entry fs.DirEntry, err error) error {
			files = append(files, path)
			if errors.Is(err, fs.ErrNotExist) { // the tests say so
				return nil
			}
			return err
		})
		if err != nil {
			return 1, err
		}
	}
	log := testLog(value("testlogfile"))
	code := run()
	if err := log.write([]string{string(log)}, files...); err != nil {
		return 1, err
	}
	return code, nil
}

// Source returns the path of a file of the module that a program reads for a test: Go runs the test again when
// the file has changed, as it does for files that the test itself opens.
func Source(t testing.TB, path string) string {
	t.Helper()
	if _, err := os.Stat(path); err != nil { // which Go notes
		t.Fatal(err)
	}
	return path
}
