// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package resolvconf

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

var example = Config{Servers: []string{"192.0.2.1", "2001:db8::1"}, Domain: "a.example", Searches: []string{"a.example", "b.example"}, Options: []string{"ndots:1", "rotate"}}

const exampleText = `# Written by allocnet for network namespace web, and removed with it.
nameserver 192.0.2.1
nameserver 2001:db8::1
search a.example b.example
options ndots:1 rotate
`

func TestFile(t *testing.T) {
	old := unix.Umask(0o077) // the agent's
	defer unix.Umask(old)
	var changes []string
	f := File{Dir: filepath.Join(t.TempDir(), "netns"), Name: "web", Intercept: func(op, _ string, change func() error) error {
		changes = append(changes, op)
		return change()
	}}
	for range 2 {
		if err := f.Write(example); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(exampleText, content(t, f.Path())); diff != "" {
		t.Error(diff)
	}
	for path, want := range map[string]fs.FileMode{f.Path(): 0o644, filepath.Dir(f.Path()): 0o755, f.Dir: 0o755} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want mode %o", path, info, err, want)
		}
	}
	if err := f.Write(Config{Servers: []string{"192.0.2.3"}}); err != nil {
		t.Fatal(err)
	}
	if got := content(t, f.Path()); !strings.HasSuffix(got, "removed with it.\nnameserver 192.0.2.3\n") {
		t.Errorf("replaced by %q", got)
	}
	if err := f.Write(Config{}); err != nil || !strings.Contains(content(t, f.Path()), "\n# No network") {
		t.Errorf("without servers: %v, %q", err, content(t, f.Path()))
	}
	for range 2 {
		if err := f.Remove(); err != nil {
			t.Error(err)
		}
	}
	if left := names(t, f.Dir); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	if want := []string{"mkdir", "mkdir", "write", "write", "write", "remove", "remove"}; !slices.Equal(changes, want) {
		t.Errorf("changes %v, want %v", changes, want)
	}
}

// TestForeign: a file that allocnet did not write for this namespace is neither replaced
// nor removed, and no link is followed.
func TestForeign(t *testing.T) {
	for name, put := range map[string]func(t *testing.T, dir string) error{
		"a file": func(_ *testing.T, dir string) error {
			return os.WriteFile(dir+"/resolv.conf", []byte("nameserver 192.0.2.9\n"), 0o600)
		},
		"of another namespace": func(_ *testing.T, dir string) error {
			return os.WriteFile(dir+"/resolv.conf", []byte(File{Name: "web-2"}.mark()), 0o600)
		},
		"a link": func(t *testing.T, dir string) error {
			other := filepath.Join(t.TempDir(), "other")
			return errors.Join(os.WriteFile(other, []byte(exampleText), 0o600), os.Symlink(other, dir+"/resolv.conf"))
		},
		"a dangling link": func(_ *testing.T, dir string) error { return os.Symlink("nowhere", dir+"/resolv.conf") },
		"a directory":     func(_ *testing.T, dir string) error { return os.Mkdir(dir+"/resolv.conf", 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			f := File{Dir: t.TempDir(), Name: "web"}
			dir := filepath.Dir(f.Path())
			if err := errors.Join(os.Mkdir(dir, 0o700), put(t, dir)); err != nil {
				t.Fatal(err)
			}
			before := state(t, f.Path())
			if err := f.Write(example); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), f.Path()) {
				t.Errorf("Write: %v", err)
			}
			if err := f.Remove(); err != nil {
				t.Error(err)
			}
			if after := state(t, f.Path()); after != before || !slices.Equal(names(t, dir), []string{"resolv.conf"}) {
				t.Errorf("was %s, is %s; the directory has %v", before, after, names(t, dir))
			}
		})
	}
}

// TestDirectoryOfOthers: other files of the namespace stay, and a link in place of its
// directory is not followed.
func TestDirectoryOfOthers(t *testing.T) {
	f := File{Dir: t.TempDir(), Name: "web"}
	if err := f.Write(example); err != nil {
		t.Fatal(err)
	}
	hosts := filepath.Join(f.Dir, "web", "hosts")
	killed := filepath.Join(f.Dir, "web", ".resolv.conf.new")
	if err := errors.Join(os.WriteFile(hosts, nil, 0o600), os.WriteFile(killed, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := f.Remove(); err != nil {
		t.Error(err)
	}
	if left := names(t, filepath.Dir(hosts)); !slices.Equal(left, []string{"hosts"}) {
		t.Errorf("left are %v", left)
	}
	elsewhere := t.TempDir()
	link := File{Dir: f.Dir, Name: "link"}
	if err := os.Symlink(elsewhere, filepath.Join(f.Dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := link.Write(example); err == nil || len(names(t, elsewhere)) > 0 {
		t.Errorf("Write through a link: %v, %v", err, names(t, elsewhere))
	}
	if err := link.Remove(); err != nil {
		t.Errorf("Remove through a link: %v", err)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

// state is a file with the target of a link, not followed.
func state(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		return err.Error()
	}
	target, _ := os.Readlink(path) // fails for anything else
	data, _ := os.ReadFile(path)   // fails for directories
	return info.Mode().String() + " " + target + " " + string(data)
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}
