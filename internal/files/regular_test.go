// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNotRegular: what is no file is refused at once, however it is opened.
func TestNotRegular(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := unix.Mkfifo("pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("directory", 0o700); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if err := os.Symlink("pipe", "link"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"pipe", "directory", "socket", "link", "/dev/null"} {
		for _, flags := range []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDONLY | unix.O_NOFOLLOW} {
			file, err := Open(path, flags, 0)
			if file != nil || err == nil || !errors.Is(err, ErrNotRegular) {
				t.Errorf("%s, flags %#x: %v", path, flags, err)
			}
		}
	}
}

// TestLink: a link to a file is followed unless that is refused.
func TestLink(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := Overwrite("file", []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", "link"); err != nil {
		t.Fatal(err)
	}
	if data, err := Read("link"); string(data) != "text" || err != nil {
		t.Errorf("Read: %q, %v", data, err)
	}
	if data, err := ReadNoFollow("file"); string(data) != "text" || err != nil {
		t.Errorf("ReadNoFollow of the file: %q, %v", data, err)
	}
	if _, err := ReadNoFollow("link"); !errors.Is(err, ErrNotRegular) {
		t.Errorf("ReadNoFollow of the link: %v", err)
	}
	if _, err := Read("missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
