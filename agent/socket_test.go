// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/allocnet/allocnet/internal/roottest"
)

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "agent.sock")
	first, err := Listen(path, Access{})
	if err != nil {
		t.Fatal(err)
	}
	if got := first.Addr().String(); got != path {
		t.Errorf("the address is %s", got)
	}
	for file, want := range map[string]os.FileMode{filepath.Dir(path): 0o700, path: 0o600} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want mode %o", file, info.Mode(), err, want)
		}
	}
	if _, err := Listen(path, Access{}); !errors.Is(err, ErrRunning) {
		t.Errorf("a second agent: %v", err)
	}
	_ = first.(*socket).UnixListener.Close() // as after kill -9: the file stays
	second, err := Listen(path, Access{})
	if err != nil {
		t.Fatalf("over a stale socket: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Dir(path) + "/*"); left != nil {
		t.Errorf("left: %v", left)
	}
}

// TestRootListenForGroup is started again in the directory that it made, and in one
// that was made for root alone.
func TestRootListenForGroup(t *testing.T) {
	roottest.Require(t)
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/root", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir + "/new/agent.sock", dir + "/new/agent.sock", dir + "/root/agent.sock"} {
		l, err := Listen(path, Access{Group: 4242})
		if err != nil {
			t.Fatal(err)
		}
		requireFile(t, filepath.Dir(path), 0o750, 4242) // its members cannot replace the socket
		requireFile(t, path, 0o660, 4242)
		_ = l.Close()
	}
}

func TestListenRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/open/other", "")
	if err := os.Chmod(dir+"/open", 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/closed/agent.sock", "text")
	write(t, dir+"/file", "")
	for path, word := range map[string]string{
		"run/agent.sock":           "absolute",
		dir + "/open/agent.sock":   "mode 0755",
		dir + "/closed/agent.sock": "file of another kind",
		dir + "/file/agent.sock":   "not a directory",
	} {
		if _, err := Listen(path, Access{}); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v, want %q", path, err, word)
		}
	}
	if data, _ := os.ReadFile(dir + "/closed/agent.sock"); string(data) != "text" {
		t.Error("a file was replaced")
	}
}

// TestListenRefusesDirectories: a user who can write to the directory of the socket can replace it, and others may not enter it.
func TestListenRefusesDirectories(t *testing.T) {
	for mode, refused := range map[os.FileMode]bool{0o700: false, 0o740: false, 0o750: false, 0o720: true, 0o770: true, 0o701: true, 0o702: true, 0o704: true} {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		l, err := Listen(dir+"/agent.sock", Access{})
		if err == nil {
			_ = l.Close() // only for its error
		}
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), fmt.Sprintf("has mode %#o", mode)) {
			t.Errorf("mode %#o: %v; want it refused: %v", mode, err, refused)
		}
	}
}

// TestRootAdopt has a socket as systemd makes it: for root, in a directory for root.
func TestRootAdopt(t *testing.T) {
	roottest.Require(t)
	group := Access{Group: 4242}
	for name, test := range map[string]struct {
		access      Access
		dir, want   os.FileMode
		socket      os.FileMode
		other, word string
		gid         uint32
	}{
		"for root":                 {Access{}, 0o700, 0o700, 0o600, "", "", 0},
		"for a group":              {group, 0o700, 0o750, 0o660, "", "", 4242},
		"in an open directory":     {group, 0o755, 0o755, 0o660, "other", "", 0},
		"in another's directory":   {group, 0o700, 0o700, 0o660, "other", "group 4242", 0},
		"as another socket before": {group, 0o750, 0o750, 0o660, "", "", 4242},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			write(t, dir+"/"+cmp.Or(test.other, "gone"), "")
			if test.other == "" {
				_ = os.Remove(dir + "/gone")
			}
			l, err := net.Listen("unix", dir+"/agent.sock")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if err := errors.Join(os.Chmod(dir, test.dir), os.Chmod(dir+"/agent.sock", 0o600)); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second agent finds what the first has set
				if err := Adopt(l.Addr().String(), test.access); (err != nil) != (test.word != "") || err != nil && !strings.Contains(err.Error(), test.word) {
					t.Errorf("the error is %v, want %q", err, test.word)
				}
			}
			requireFile(t, dir, test.want, test.gid)
			requireFile(t, dir+"/agent.sock", test.socket, test.access.Group)
		})
	}
}

// TestRootAdoptFollowsTheConfiguration from a group to none.
func TestRootAdoptFollowsTheConfiguration(t *testing.T) {
	roottest.Require(t)
	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, access := range []Access{{Owner: 4241, Group: 4242}, {}} {
		if err := Adopt(path, access); err != nil {
			t.Fatal(err)
		}
	}
	requireFile(t, path, 0o600, 0)
	if info, _ := os.Stat(path); info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Error("the socket stays with the user that it was given to before")
	}
	abstract, err := net.Listen("unix", "@allocnet-test-"+filepath.Base(t.TempDir())+strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	if err := Adopt(abstract.Addr().String(), Access{}); err == nil || !strings.Contains(err.Error(), "absolute path") {
		t.Errorf("a socket without a file: %v", err)
	}
}

func requireFile(t *testing.T, path string, mode os.FileMode, gid uint32) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Sys().(*syscall.Stat_t).Gid; info.Mode().Perm() != mode || got != gid {
		t.Errorf("%s: mode %o, group %d, want %o and %d", path, info.Mode().Perm(), got, mode, gid)
	}
}

func TestAccess(t *testing.T) {
	own := uint32(os.Geteuid())
	for name, test := range map[string]struct {
		access Access
		peer   peer
		want   bool
	}{
		"root":         {Access{}, peer{uid: 0}, true},
		"own user":     {Access{}, peer{uid: own}, true},
		"other":        {Access{}, peer{uid: own + 12345, gid: 0}, false},
		"owner":        {Access{Owner: own + 12345}, peer{uid: own + 12345}, true},
		"group":        {Access{Group: 777}, peer{uid: own + 12345, gid: 777}, true},
		"other group":  {Access{Group: 777}, peer{uid: own + 12345, gid: 778}, false},
		"unknown user": {Access{Group: 777}, peer{uid: 4294967294}, false},
	} {
		if got := test.access.allows(test.peer); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
