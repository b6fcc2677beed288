// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package resolvconf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/files"
)

// DefaultDir has the files of named network namespaces: ip-netns(8) mounts those of
// DefaultDir/NAME over those in /etc.
const DefaultDir = "/etc/netns"

// fileName is the file's, in the directory of its namespace.
const fileName = "resolv.conf"

// ErrForeign is a file that allocnet did not write for the namespace.
var ErrForeign = errdefs.New(errdefs.Conflict, "was not written by allocnet for this namespace")

// File is the resolv.conf of a named network namespace. Its caller has a lock for the
// name.
type File struct {
	// Dir is the directory of all namespaces, usually DefaultDir.
	Dir string
	// Name is that of the namespace: a file name.
	Name string
	// Intercept makes each change, "mkdir", "write" or "remove", by calling change. It
	// is for tests. Nil: they are made.
	Intercept func(op, path string, change func() error) error
}

// Path returns the path of the file.
func (f File) Path() string { return filepath.Join(f.Dir, f.Name, fileName) }

func (f File) mark() string {
	return "# Written by allocnet for network namespace " + f.Name + ", and removed with it.\n"
}

// Write writes the file, unless it has the content already. A comment is added if there
// are no servers. A file of another program or of the operator is ErrForeign, and stays.
// After a power cut the file has the old content or the new one.
func (f File) Write(c Config) error {
	text := f.mark() + c.format()
	if len(c.Servers) == 0 {
		text += "# No network of the allocation has name servers, and the host has none that other namespaces can use.\n"
	}
	dir, err := f.makeDir()
	if err != nil {
		return fmt.Errorf("write %s: %w", f.Path(), err)
	}
	defer dir.Close() //nolint:errcheck // a directory
	old, err := readRegular(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("read %s: %w", f.Path(), err)
	case !strings.HasPrefix(old, f.mark()):
		return fmt.Errorf("%s %w", f.Path(), ErrForeign)
	case old == text:
		return nil
	}
	return f.change("write", func() error {
		return files.ReplaceIn(dir, fileName, []byte(text), files.Options{Mode: 0o644, Durable: true})
	})
}

// List returns the files in a directory that allocnet has written. A missing directory has
// none.
func List(dir string) ([]File, error) {
	entries, err := files.IfExists(os.ReadDir(dir))
	if err != nil {
		return nil, err
	}
	var files []File
	for _, entry := range entries {
		f := File{Dir: dir, Name: entry.Name()}
		if entry.IsDir() && f.isOurs() {
			files = append(files, f)
		}
	}
	return files, nil
}

// isOurs tells whether allocnet has written the file.
func (f File) isOurs() bool {
	dir, err := f.openDir()
	if err != nil {
		return false
	}
	defer dir.Close() //nolint:errcheck // a directory
	text, err := readRegular(dir)
	return err == nil && strings.HasPrefix(text, f.mark())
}

// Remove removes the file, and its directory if nothing else is in it. A file of another
// program or of the operator stays, and a missing one is no error.
func (f File) Remove() error {
	info, err := os.Lstat(filepath.Dir(f.Path()))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil
	}
	if err == nil {
		err = f.remove()
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", f.Path(), err)
	}
	return nil
}

func (f File) remove() error {
	dir, err := f.openDir()
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // a directory
	old, err := files.IfExists(readRegular(dir))
	if err != nil {
		return err
	}
	if strings.HasPrefix(old, f.mark()) {
		if err := f.change("remove", func() error { return dir.Remove(fileName) }); err != nil {
			return err
		}
	}
	return f.change("remove", func() error {
		if err := files.RemoveTemporary(dir, fileName); err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(f.Dir, f.Name)); !errors.Is(err, unix.ENOTEMPTY) {
			return files.UnlessMissing(err)
		}
		return nil
	})
}

func (f File) change(op string, change func() error) error {
	if f.Intercept == nil {
		return change()
	}
	return f.Intercept(op, f.Path(), change)
}

// makeDir makes the directory of the namespace, for all users to read.
func (f File) makeDir() (*os.Root, error) {
	for _, path := range []string{f.Dir, filepath.Join(f.Dir, f.Name)} {
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		err := f.change("mkdir", func() error {
			if err := os.MkdirAll(path, 0o755); err != nil { // an image may have no /etc
				return err
			}
			return os.Chmod(path, 0o755)
		})
		if err != nil {
			return nil, err
		}
	}
	return f.openDir()
}

// openDir opens the directory of the namespace, not through a link to another place.
func (f File) openDir() (*os.Root, error) {
	all, err := os.OpenRoot(f.Dir)
	if err != nil {
		return nil, err
	}
	defer all.Close() //nolint:errcheck // a directory
	return all.OpenRoot(f.Name)
}

// readRegular returns the content of the file. A link or anything else but a file has the
// content "", which is not ours.
func readRegular(dir *os.Root) (string, error) {
	info, err := dir.Lstat(fileName)
	if err != nil || !info.Mode().IsRegular() {
		return "", err
	}
	file, err := dir.Open(fileName)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.LimitReader(file, 64<<10))
	return string(data), err
}

// MountOver mounts a file over /etc/resolv.conf in a new mount namespace of this thread,
// which the processes that it starts inherit. The caller ends the thread.
func MountOver(path string) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount(path, "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s over /etc/resolv.conf: %w", path, err)
	}
	return nil
}
