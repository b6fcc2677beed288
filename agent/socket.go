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
	"time"

	"golang.org/x/sys/unix"
)

// ErrRunning is a socket on which another agent answers.
var ErrRunning = errors.New("another agent is running")

// Listen makes the socket, in a directory that only those with access can
// enter. A socket that another agent left is replaced; one on which an agent
// answers is ErrRunning. What a directory holds besides is left alone.
func Listen(path string, access Access) (net.Listener, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("socket %q: want an absolute path such as /run/allocnet/agent.sock", path)
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
	if err := restrict(path, 0o600, access); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// prepareDir makes the run directory. One that is there may have been made for
// other things, so it is looked at and not changed.
func prepareDir(dir string, access Access) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		return restrict(dir, 0o700, access)
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

// lockDir keeps two agents that start together from replacing each other's
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

// removeStale removes a socket that nobody serves.
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
		_ = c.Close() // only tried
		return fmt.Errorf("socket %s: %w", path, ErrRunning)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("socket %s: cannot tell whether an agent serves it: %w", path, err)
	}
	return os.Remove(path)
}

// listenPrivately gives nobody a moment in which the socket has the mode that
// the umask would leave it: it is made under another name.
func listenPrivately(path string) (net.Listener, error) {
	making := path + ".new"
	if err := os.Remove(making); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: making, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(making, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if err := os.Rename(making, path); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	made, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &socket{l, path, made}, nil
}

// socket removes its file when it is closed, if the file is still its own.
type socket struct {
	*net.UnixListener
	path string
	made fs.FileInfo
}

// Addr is where clients find the socket, which is not where it was made.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

func (s *socket) Close() error {
	present, err := os.Lstat(s.path)
	if err == nil && os.SameFile(s.made, present) {
		_ = os.Remove(s.path) // a stale one is replaced by the next agent
	}
	return s.UnixListener.Close()
}

// restrict gives a file to the owner, and to the group if there is one.
func restrict(path string, mode fs.FileMode, access Access) error {
	gid := -1
	if access.Group != 0 {
		gid = int(access.Group)
		mode |= mode >> 3 & 0o070
	}
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	if access.Owner == 0 && gid < 0 {
		return nil
	}
	return os.Chown(path, int(access.Owner), gid)
}
