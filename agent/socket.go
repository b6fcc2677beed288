// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// ErrRunning is a socket on which another agent answers.
var ErrRunning = errors.New("another agent is running")

// Listen creates the socket, in a directory that only users with access can enter.
// It replaces a stale socket; if an agent answers on the socket, the error is
// ErrRunning. Other files in the directory are not touched.
func Listen(path string, access Access) (net.Listener, error) {
	if !filepath.IsAbs(path) {
		return nil, errdefs.As(errdefs.Refused, fmt.Errorf("socket %q: want an absolute path such as /run/allocnet/agent.sock", path))
	}
	dir := filepath.Dir(path)
	if err := prepareDir(dir, access); err != nil {
		return nil, fmt.Errorf("run directory %s: %w", dir, err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close() //nolint:errcheck // nothing was written
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := listenPrivately(path)
	if err != nil {
		return nil, err
	}
	if err := restrict(path, 0o600, 0o060, access); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if err := openDir(path, access); err != nil {
		return nil, errors.Join(fmt.Errorf("run directory: %w", err), l.Close())
	}
	return l, nil
}

// prepareDir creates the run directory. An existing one may have other uses, so it is
// only checked.
func prepareDir(dir string, access Access) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		return restrict(dir, 0o700, 0o050, access)
	}
	info, look := os.Lstat(dir)
	switch {
	case look != nil:
		return err
	case !info.IsDir():
		return errors.New("is not a directory")
	case info.Mode().Perm()&0o027 != 0:
		return fmt.Errorf("has mode %#o: want one that is closed to others, such as 0700", info.Mode().Perm())
	}
	return nil
}

// Adopt sets owner, group and mode of a socket from systemd, and of its directory, as
// Listen does: the configuration overrides the socket unit. After an error the socket
// works for root.
func Adopt(path string, access Access) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("socket %q: has no file whose mode could be set: want ListenStream= with an absolute path", path)
	}
	if err := chown(path, int(access.Owner), int(access.Group)); err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if err := restrict(path, 0o600, 0o060, access); err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if err := openDir(path, access); err != nil {
		return fmt.Errorf("run directory of the socket: %w", err)
	}
	return nil
}

// openDir lets users with access enter the directory of a socket. A directory with
// other files is not the socket's own, and is not changed.
func openDir(socket string, access Access) error {
	dir := filepath.Dir(socket)
	info, err := os.Stat(dir)
	if err != nil || access == (Access{}) || enterable(info, access) {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() != filepath.Base(socket) {
			return fmt.Errorf("%s has mode %#o and holds %s as well: let user %d and group %d enter it, or give the socket a directory of its own",
				dir, info.Mode().Perm(), entry.Name(), access.Owner, access.Group)
		}
	}
	return restrict(dir, 0o700, 0o050, access)
}

// enterable tells whether owner and group can enter a directory.
func enterable(info fs.FileInfo, access Access) bool {
	mode := info.Mode().Perm()
	of, ok := info.Sys().(*syscall.Stat_t)
	if mode&0o001 != 0 || !ok {
		return mode&0o001 != 0
	}
	owner := access.Owner == 0 || of.Uid == access.Owner && mode&0o100 != 0
	group := access.Group == 0 || of.Gid == access.Group && mode&0o010 != 0
	return owner && group
}

// lockDir keeps two agents that start at the same time from replacing each other's
// socket.
func lockDir(dir string) (*os.File, error) {
	lock, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		_ = lock.Close() // nothing was written
		return nil, fmt.Errorf("lock run directory %s: %w", dir, err)
	}
	return lock, nil
}

// removeStale removes a socket on which no process listens.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("socket %s: is a file of another kind: remove it, or choose another path", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close() // only a probe
		return fmt.Errorf("socket %s: %w", path, ErrRunning)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("socket %s: cannot tell whether an agent serves it: %w", path, err)
	}
	return os.Remove(path)
}

// listenPrivately creates the socket under another name and renames it, so that it
// never has the mode of the umask under its own name.
func listenPrivately(path string) (net.Listener, error) {
	temporary := path + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(temporary, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if err := os.Rename(temporary, path); err != nil { //nolint:forbidigo // a socket, not a file
		return nil, errors.Join(err, l.Close())
	}
	created, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &socket{l, path, created}, nil
}

// socket removes its file when it is closed, if the file is still its own.
type socket struct {
	*net.UnixListener
	path    string
	created fs.FileInfo
}

// Addr is the path of the socket, not the one under which it was created.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

func (s *socket) Close() error {
	present, err := os.Lstat(s.path)
	if err == nil && os.SameFile(s.created, present) {
		_ = os.Remove(s.path) // a stale one is replaced by the next agent
	}
	return s.UnixListener.Close()
}

// restrict sets owner, group and mode of a file. The group cannot change the contents
// of a directory.
func restrict(path string, mode, groupMode fs.FileMode, access Access) error {
	gid := -1
	if access.Group != 0 {
		gid = int(access.Group)
		mode |= groupMode
	}
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	if access.Owner == 0 && gid < 0 {
		return nil
	}
	return chown(path, int(access.Owner), gid)
}

// chown sets owner and group of a file that has others: under its systemd unit the
// agent finds both set, and has no right to change them. A gid of -1 is any.
func chown(path string, uid, gid int) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if of, ok := info.Sys().(*syscall.Stat_t); ok && int(of.Uid) == uid && (gid < 0 || int(of.Gid) == gid) {
		return nil
	}
	return os.Chown(path, uid, gid)
}
