// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Options are the properties of a file. The zero value is a file of mode 0600 whose
// writers hold a lock, and which may be empty after a power cut.
type Options struct {
	// Mode is the file's permission, whatever the umask. 0: 0600.
	Mode fs.FileMode
	// Durable syncs the file before it gets its name, and the directory after:
	// after a power cut the file has the old content or the new content. False:
	// for files that a reboot makes worthless, or that readers verify.
	Durable bool
	// Unlocked has writers wait for one another, for files that several processes may write at a time. False: the
	// callers hold a lock. The next writer removes the temporary file of a killed one.
	Unlocked bool
	// New makes a file, and fails with fs.ErrExist where there is one. False: it is replaced.
	New bool
	// Existing replaces a file, and fails with fs.ErrNotExist where there is none: another process may have removed it a moment before. It
	// may also be writing it: the temporary file is another one than that of writers with a lock. One process at a time replaces it so.
	Existing bool
}

// Replace replaces the file at path. A symbolic link at path is replaced, not
// followed; a directory at path is an error.
func Replace(path string, data []byte, o Options) error {
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer dir.Close() //nolint:errcheck // opened for reading
	return ReplaceIn(dir, filepath.Base(path), data, o)
}

// ReplaceIn replaces a file of an open directory.
func ReplaceIn(dir *os.Root, name string, data []byte, o Options) error {
	if err := write(root{dir}, name, data, o); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(dir.Name(), name), err)
	}
	return nil
}

// ReplaceJSON replaces the file at path by the JSON of a value. It makes the directory for this user alone.
func ReplaceJSON(path string, v any, o Options) error {
	data, err := json.Marshal(v)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return Replace(path, data, o)
}

// Remove removes the file at path, and what a killed writer of Replace left of it. There may be none.
func Remove(path string) error {
	dir, err := IfExists(os.OpenRoot(filepath.Dir(path)))
	if dir == nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // opened for reading
	name := filepath.Base(path)
	if err := UnlessMissing(dir.Remove(name)); err != nil {
		return err
	}
	return RemoveTemporary(dir, name)
}

// RemoveTemporary removes what a killed writer of ReplaceIn left, unless it was for a file that is Existing.
func RemoveTemporary(dir *os.Root, name string) error {
	return root{dir}.remove(temporaryName(name, Options{}))
}

// ClearFile is Clear, also of what a killed writer of ReplaceIn left.
func ClearFile(dir *os.Root, name string) error {
	return errors.Join(Clear(dir, name), RemoveTemporary(dir, name), root{dir}.remove(temporaryName(name, Options{Existing: true})))
}

// OfTemporary returns the name of the file that a temporary file is for.
func OfTemporary(name string) (of string, ok bool) {
	of, hidden := strings.CutPrefix(name, ".")
	of, ok = strings.CutSuffix(of, temporarySuffix)
	return of, ok && hidden && of != ""
}

// directory is where the file is. Tests let each of its steps fail.
type directory interface {
	create(name string, mode fs.FileMode) (file, error)
	// createShared does, when no other writer has the name. It is this one's until release, or a death.
	createShared(name string) (f file, release func(), err error)
	rename(from, to string) error
	// renameNew fails with fs.ErrExist where there is a file.
	renameNew(from, to string) error
	// link does, too, and leaves the former name.
	link(from, to string) error
	// exchange fails with fs.ErrNotExist where there is no file.
	exchange(from, to string) error
	// overwrite does, too, and where there is something else than a file that has one name.
	overwrite(name string, data []byte) error
	remove(name string) error
	sync() error
}

type file interface {
	io.WriteCloser
	Chmod(mode fs.FileMode) error
	Sync() error
}

func write(dir directory, name string, data []byte, o Options) error {
	if o.Mode == 0 {
		o.Mode = 0o600
	}
	temporary := temporaryName(name, o)
	file, release, err := createTemporary(dir, temporary, o)
	if err != nil {
		return err
	}
	defer release()
	err = fill(file, data, o)
	rename := dir.rename
	switch {
	case o.New:
		rename = func(from, to string) error { return renameNew(dir, from, to) }
	case o.Existing:
		rename = func(from, to string) error { return replaceExisting(dir, from, to, data) }
	}
	if err == nil {
		err = rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, dir.remove(temporary))
	}
	if o.Durable {
		return dir.sync()
	}
	return nil
}

// renameNew renames a file. Where the file system has no rename that replaces nothing, as NFS and older ZFS, it gets a second name first.
func renameNew(dir directory, from, to string) error {
	err := dir.renameNew(from, to)
	if isUnsupported(err) {
		err = errors.Join(dir.link(from, to), dir.remove(from))
	}
	return err
}

// replaceExisting exchanges files, and removes the former one. Where the file system cannot exchange, the file is
// overwritten: unlike a rename that makes no file that another process has removed meanwhile, and replaces none that it has written.
func replaceExisting(dir directory, from, to string, data []byte) error {
	err := dir.exchange(from, to)
	if isUnsupported(err) {
		err = dir.overwrite(to, data)
	}
	return errors.Join(err, dir.remove(from))
}

// isUnsupported tells whether a file system cannot rename with flags.
func isUnsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
}

const temporarySuffix = ".new"

// temporaryName is hidden, and has no extension that readers of a configuration
// directory look for.
func temporaryName(name string, o Options) string {
	if o.Existing {
		name += ".existing"
	}
	return "." + name + temporarySuffix
}

// createTemporary creates the temporary file, in the place of what a killed writer left.
func createTemporary(dir directory, name string, o Options) (f file, release func(), err error) {
	if o.Unlocked {
		return dir.createShared(name)
	}
	if err := dir.remove(name); err != nil {
		return nil, nil, err
	}
	f, err = dir.create(name, o.Mode)
	return f, func() {}, err
}

func fill(file file, data []byte, o Options) error {
	_, err := file.Write(data)
	if err == nil {
		err = file.Chmod(o.Mode)
	}
	if err == nil && o.Durable {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// root is a directory of the file system. Nothing in it is followed to another.
type root struct{ dir *os.Root }

func (r root) create(name string, mode fs.FileMode) (file, error) {
	return r.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
}

func (r root) rename(from, to string) error { return r.dir.Rename(from, to) }

func (r root) renameNew(from, to string) error { return r.renameBy(unix.RENAME_NOREPLACE, from, to) }

func (r root) link(from, to string) error { return r.dir.Link(from, to) }

func (r root) exchange(from, to string) error { return r.renameBy(unix.RENAME_EXCHANGE, from, to) }

func (r root) renameBy(how uint, from, to string) error {
	opened, err := r.dir.Open(".")
	if err != nil {
		return err
	}
	fd := int(opened.Fd())
	return errors.Join(unix.Renameat2(fd, from, fd, to, how), opened.Close())
}

// mostPadding is more than this package has written where it overwrites. A longer file is a task's, and may be longer than memory is.
const mostPadding = 1 << 20

// overwrite writes in one call, with newlines up to the former length before the file is cut to its own: readers see no mixture of lines.
// Tasks can write to the directory: a link is not followed, a file that has other names may be another's, to open a device may be to use it,
// and a file that is as long as no disk has none of these lines.
func (r root) overwrite(name string, data []byte) error {
	opened, err := r.dir.Open(".")
	if err != nil {
		return err
	}
	defer opened.Close() //nolint:errcheck // a directory
	fd, err := unix.Openat(int(opened.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // a path
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Nlink != 1 { // none, if it was removed
		return fmt.Errorf("%w: it is no regular file with one name", fs.ErrNotExist)
	}
	file, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	padding := bytes.Repeat([]byte{'\n'}, int(min(max(0, stat.Size-int64(len(data))), mostPadding)))
	_, err = file.WriteAt(slices.Concat(data, padding), 0)
	return errors.Join(err, file.Truncate(int64(len(data))), file.Close())
}

func (r root) remove(name string) error { return Clear(r.dir, name) }

func (r root) sync() error {
	opened, err := r.dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}
