// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package netns makes, removes and inspects network namespaces that are pinned
// to a path, as `ip netns` keeps them. The caller's own namespace is never
// changed: what must run inside another runs on a thread that is thrown away.
package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	vishns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// DefaultDir is where `ip netns` pins namespaces.
const DefaultDir = "/run/netns"

// ErrMissing is a path at which there is no network namespace.
var ErrMissing = errdefs.New(errdefs.Refused, "network namespace is missing")

// ErrExists is a name that is taken.
var ErrExists = errdefs.New(errdefs.Conflict, "network namespace exists already")

// MissingError says in which way a namespace is missing. It is ErrMissing.
type MissingError struct{ Path, Reason string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("network namespace %q is missing: %s", e.Path, e.Reason)
}

// Kind is that of package errdefs.
func (*MissingError) Kind() errdefs.Kind { return errdefs.Refused }

// Is makes the error an ErrMissing.
func (e *MissingError) Is(target error) bool { return target == ErrMissing }

// Create makes a namespace, with its loopback interface up, and pins it at
// dir/name. The error is ErrExists when there is anything at that path.
func Create(dir, name string) (string, error) {
	if err := shareDir(dir); err != nil {
		return "", fmt.Errorf("prepare %s: %w", dir, err)
	}
	path := filepath.Join(dir, name)
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("%w: %s", ErrExists, path)
	}
	if err != nil {
		return "", err
	}
	_ = file.Close() // empty: a place to mount on
	if err := onNewThread(func() error { return pinNew(path) }); err != nil {
		return "", errors.Join(err, Remove(path))
	}
	return path, nil
}

// pinNew runs on a thread of its own.
func pinNew(path string) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make network namespace: %w", err)
	}
	loopback := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Name: "lo"}}
	if err := netlink.LinkSetUp(loopback); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	if err := unix.Mount("/proc/thread-self/ns/net", path, "none", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("pin network namespace at %s: %w", path, err)
	}
	return nil
}

// shareDir makes dir a shared mount, as `ip netns add` does: otherwise a
// removal would not reach the mount namespaces made since.
func shareDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	err := unix.Mount("", dir, "none", unix.MS_SHARED|unix.MS_REC, "")
	if !errors.Is(err, unix.EINVAL) { // EINVAL: not a mount point yet
		return err
	}
	return mountDir(dir)
}

// mountDir makes dir a shared mount under the lock that `ip netns add` takes:
// of two that find no mount, both would make one, the second over the first.
func mountDir(dir string) error {
	lock, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // nothing was written
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	err = unix.Mount("", dir, "none", unix.MS_SHARED|unix.MS_REC, "")
	if !errors.Is(err, unix.EINVAL) { // somebody was quicker
		return err
	}
	if err := unix.Mount(dir, dir, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.Mount("", dir, "none", unix.MS_SHARED|unix.MS_REC, "")
}

// Remove unpins the namespace at path and removes the file. One that is gone
// is fine. Interfaces in it go when its last process has ended.
func Remove(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break // no longer a mount point
		}
		if err != nil {
			return fmt.Errorf("unpin %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Namespace is an open network namespace. It stays usable when its path goes.
type Namespace struct {
	path   string
	handle vishns.NsHandle
	link   *netlink.Handle
	id     string
}

// Open opens the namespace at path. The error is a *MissingError when the path
// is empty, leads nowhere, or leads to something else.
func Open(path string) (*Namespace, error) {
	handle, err := refer(path)
	if err != nil {
		return nil, err
	}
	n := &Namespace{path: path, handle: handle}
	if n.link, err = netlink.NewHandleAt(handle, unix.NETLINK_ROUTE); err == nil {
		n.id, err = n.identify()
	}
	if err != nil {
		_ = n.Close() // the first error tells
		return nil, fmt.Errorf("enter network namespace %s: %w", path, err)
	}
	return n, nil
}

// IsOwn tells whether the namespace at path is the caller's. Errors are those of
// Open.
func IsOwn(path string) (bool, error) {
	handle, err := refer(path)
	if err != nil {
		return false, err
	}
	defer handle.Close() //nolint:errcheck // only looked at
	own, err := vishns.Get()
	if err != nil {
		return false, fmt.Errorf("open the own network namespace: %w", err)
	}
	defer own.Close() //nolint:errcheck // only looked at
	return handle.Equal(own), nil
}

// refer opens what is at path, and looks whether it is a network namespace.
func refer(path string) (vishns.NsHandle, error) {
	if path == "" {
		return 0, &MissingError{path, "no path is known"}
	}
	if err := inspect(path); err != nil {
		return 0, err
	}
	handle, err := vishns.GetFromPath(path)
	if err != nil {
		return 0, fmt.Errorf("open network namespace %s: %w", path, err)
	}
	if kind, err := unix.IoctlRetInt(int(handle), unix.NS_GET_NSTYPE); err == nil && kind != unix.CLONE_NEWNET {
		_ = handle.Close() // only looked at
		return 0, &MissingError{path, "what is there is a namespace of another kind"}
	}
	return handle, nil
}

func inspect(path string) error {
	var fs unix.Statfs_t
	err := unix.Statfs(path, &fs)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return &MissingError{path, "nothing is there"}
	}
	if err != nil {
		return fmt.Errorf("look at network namespace %s: %w", path, err)
	}
	if fs.Type != unix.NSFS_MAGIC {
		return &MissingError{path, "what is there is not a namespace"}
	}
	return nil
}

// ID identifies the namespace. It is never used again, unlike the inode.
func (n *Namespace) ID() string { return n.id }

func (n *Namespace) identify() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	var cookie uint64
	err = n.Do(func() error {
		socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(socket) //nolint:errcheck // nothing was written
		cookie, err = unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		return err
	})
	if errors.Is(err, unix.ENOPROTOOPT) { // Linux before 5.14
		return strings.TrimSpace(string(boot)) + "/" + n.handle.UniqueId(), nil
	}
	return fmt.Sprintf("%s/%d", strings.TrimSpace(string(boot)), cookie), err
}

// Do runs fn inside the namespace, on a thread of its own.
func (n *Namespace) Do(fn func() error) error {
	return onNewThread(func() error {
		if err := unix.Setns(int(n.handle), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", n.path, err)
		}
		return fn()
	})
}

// Close releases the namespace. It may be called more than once.
func (n *Namespace) Close() error {
	if n.link != nil {
		n.link.Close()
		n.link = nil
	}
	if !n.handle.IsOpen() {
		return nil
	}
	return n.handle.Close()
}

// onNewThread runs fn on a locked thread that ends with it: its namespace is
// never anybody else's.
func onNewThread(fn func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, except from the main thread
		if unix.Gettid() == unix.Getpid() {
			// It does not end: it would stay in the namespace, and keep it alive as
			// long as the process. While it is held here nobody else gets it.
			result <- onNewThread(fn)
			runtime.UnlockOSThread()
			return
		}
		result <- fn()
	}()
	return <-result
}
