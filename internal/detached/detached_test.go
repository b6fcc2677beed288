// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package detached

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/memfile"
)

// TestMain writes what a detached process sees to the file that is its argument.
func TestMain(m *testing.M) {
	path, ok := strings.CutPrefix(os.Args[len(os.Args)-1], "write-to=")
	if !ok {
		os.Exit(m.Run())
	}
	input, err := io.ReadAll(os.Stdin)
	session, sessionErr := unix.Getsid(0)
	if err != nil || sessionErr != nil || session != os.Getpid() {
		os.Exit(1)
	}
	if os.WriteFile(path+".new", input, 0o600) != nil || os.Rename(path+".new", path) != nil {
		os.Exit(1)
	}
}

func TestStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seen")
	input := strings.Repeat("x", 1<<20) // more than a pipe holds
	stdin, err := memfile.New([]byte(input))
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if err := Start(stdin, "write-to="+path); err != nil {
		t.Fatal(err)
	}
	for {
		if data, err := os.ReadFile(path); err == nil {
			if string(data) != input {
				t.Errorf("it read %d bytes, want %d", len(data), len(input))
			}
			return
		}
		time.Sleep(time.Millisecond) // go test's deadline ends it
	}
}
