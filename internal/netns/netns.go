// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package netns creates, removes and inspects network namespaces that are mounted at a
// path, as `ip netns` does. The caller's own namespace never changes: code that runs in
// another namespace runs on a thread that ends with it.
package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	vishns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// DefaultDir is the directory in which `ip netns` mounts namespaces.
const DefaultDir = "/run/netns"

// ErrMissing is a path at which there is no network namespace.
var ErrMissing = errdefs.New(errdefs.Refused, "network namespace is missing")

// ErrExists is a name that is in use.
var ErrExists = errdefs.New(errdefs.Conflict, "network namespace exists already")

// MissingError is an ErrMissing with the reason.
type MissingError struct{ Path, Reason string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("network namespace %q is missing: %s", e.Path, e.Reason)
}

// Kind is that of package errdefs.
func (*MissingError) Kind() errdefs.Kind { return errdefs.Refused }

// Is makes the error an ErrMissing.
func (e *MissingError) Is(target error) bool { return target == ErrMissing }

// Create creates a namespace and mounts it at dir/name; see New and Mount.
func Create(dir, name string) (string, error) {
	n, err := New()
	if err != nil {
		return "", err
	}
	defer n.Close() //nolint:errcheck // it is mounted, or ends
	return n.Mount(dir, name)
}

// New creates a namespace with its loopback interface up. Until Mount it has no path,
// and ends with Close or with the process.
func New() (*Namespace, error) {
	handle := vishns.None()
	err := onNewThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("create network namespace: %w", err)
		}
		handle, err = current()
		return err
	})
	if err != nil {
		return nil, err
	}
	n, err := newNamespace("", handle)
	if err != nil {
		return nil, err
	}
	if err := n.SetLoopbackUp(); err != nil {
		_ = n.Close() // the first error is returned
		return nil, err
	}
	return n, nil
}

// Mount mounts the namespace at dir/name. The error is ErrExists when the path exists.
func (n *Namespace) Mount(dir, name string) (string, error) {
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
	_ = file.Close() // an empty mount point
	if err := unix.Mount(fmt.Sprintf("/proc/thread-self/fd/%d", int(n.handle)), path, "none", unix.MS_BIND, ""); err != nil {
		return "", errors.Join(fmt.Errorf("mount network namespace at %s: %w", path, err), Remove(path))
	}
	n.path = path
	return path, nil
}

// shareDir makes dir a shared mount, as `ip netns add` does: otherwise an unmount would
// not propagate to the mount namespaces created since.
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

// mountDir makes dir a shared mount under the lock that `ip netns add` takes: two
// processes that find no mount would both mount, the second over the first.
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
	if !errors.Is(err, unix.EINVAL) { // another process mounted it
		return err
	}
	if err := unix.Mount(dir, dir, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.Mount("", dir, "none", unix.MS_SHARED|unix.MS_REC, "")
}

// Remove unmounts the namespace at path and removes the file. A missing path is not an
// error. The kernel removes the interfaces when the last process in it has ended.
func Remove(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break // no longer a mount point
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Namespace is an open network namespace. It stays usable when its path is removed.
type Namespace struct {
	path   string
	handle vishns.NsHandle
	link   *netlink.Handle
	id     string
}

// Open opens the namespace at path. The error is a *MissingError when the path is empty,
// does not exist, or is not a network namespace.
func Open(path string) (*Namespace, error) {
	handle, err := refer(path)
	if err != nil {
		return nil, err
	}
	return newNamespace(path, handle)
}

// newNamespace owns the handle, and closes it on failure.
func newNamespace(path string, handle vishns.NsHandle) (n *Namespace, err error) {
	n = &Namespace{path: path, handle: handle}
	if n.link, err = netlink.NewHandleAt(handle, unix.NETLINK_ROUTE); err == nil {
		n.id, err = identify(n)
	}
	if err != nil {
		_ = n.Close() // the first error is returned
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
	defer handle.Close() //nolint:errcheck // read only
	return (&Namespace{handle: handle}).IsOwn()
}

// IsOwn tells whether the namespace is the caller's.
func (n *Namespace) IsOwn() (bool, error) {
	own, err := current()
	if err != nil {
		return false, err
	}
	defer own.Close() //nolint:errcheck // read only
	return n.handle.Equal(own), nil
}

// current opens the caller's namespace in one system call: a goroutine may be on another thread at
// the next, and the thread that it was on may have ended.
func current() (vishns.NsHandle, error) {
	handle, err := vishns.GetFromPath("/proc/thread-self/ns/net")
	if err != nil {
		return handle, fmt.Errorf("open the own network namespace: %w", err)
	}
	return handle, nil
}

// refer opens the path after checking that it is a network namespace.
func refer(path string) (vishns.NsHandle, error) {
	if path == "" {
		return 0, &MissingError{path, "its path is unknown"}
	}
	return settled(func() (vishns.NsHandle, error) { return openNamespace(path) })
}

// settled opens once more what may not be opened: the path of a process that ends
// meanwhile answers so for an instant, and is missing then.
func settled[T any](open func() (T, error)) (T, error) {
	opened, err := open()
	if errors.Is(err, fs.ErrPermission) {
		return open()
	}
	return opened, err
}

func openNamespace(path string) (vishns.NsHandle, error) {
	if err := inspect(path, func(s *unix.Statfs_t) error { return unix.Statfs(path, s) }); err != nil {
		return 0, err
	}
	handle, err := openAside(path)
	if errors.Is(err, unix.ENOENT) {
		return 0, &MissingError{path, "the path does not exist any more"}
	}
	if err != nil {
		return 0, fmt.Errorf("open network namespace %s: %w", path, err)
	}
	// It may have been unmounted meanwhile: then the file below is open.
	if err := inspect(path, func(s *unix.Statfs_t) error { return unix.Fstatfs(int(handle), s) }); err != nil {
		_ = handle.Close() // read only
		return 0, err
	}
	if kind, err := unix.IoctlRetInt(int(handle), unix.NS_GET_NSTYPE); err == nil && kind != unix.CLONE_NEWNET {
		_ = handle.Close() // read only
		return 0, &MissingError{path, "the path is a namespace of another type"}
	}
	return handle, nil
}

// openAside opens a path by a mount of its own: that of the path is not busy then, as it would be
// for Nomad, which unmounts a namespace only if it is not. It opens the path itself where the kernel
// has no such mounts (before 5.2), or the caller has no right to them.
func openAside(path string) (vishns.NsHandle, error) {
	tree, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return vishns.GetFromPath(path)
	}
	// The handle has the mount until it is closed. To end this one, the kernel waits for what may read mounts: nothing has to wait for that.
	defer func() { go unix.Close(tree) }() //nolint:errcheck // read only
	handle, err := vishns.GetFromPath(fmt.Sprintf("/proc/self/fd/%d", tree))
	if errors.Is(err, unix.ENOENT) { // there is no /proc, and the namespace is not missing
		return vishns.GetFromPath(path)
	}
	return handle, err
}

// inspect tells whether what statfs says is of a namespace.
func inspect(path string, statfs func(*unix.Statfs_t) error) error {
	var fs unix.Statfs_t
	err := statfs(&fs)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return &MissingError{path, "the path does not exist"}
	}
	if err != nil {
		return fmt.Errorf("statfs network namespace %s: %w", path, err)
	}
	if fs.Type != unix.NSFS_MAGIC {
		return &MissingError{path, "the path is not a namespace"}
	}
	return nil
}

// ID identifies the namespace. It is never reused, unlike the inode number.
func (n *Namespace) ID() string { return n.id }

// Handle is a path that leads to this namespace until Close, in this process and in others,
// whatever is at its own path meanwhile. Without /proc it is its own path.
func (n *Namespace) Handle() string {
	process, err := os.Readlink("/proc/self") // its number in the PID namespace of /proc
	if err != nil {
		return n.path
	}
	return fmt.Sprintf("/proc/%s/fd/%d", process, int(n.handle))
}

// Inode tells the namespace from others that exist at the same time.
func (n *Namespace) Inode() uint64 {
	var stat unix.Stat_t
	_ = unix.Fstat(int(n.handle), &stat) // an open file has one
	return stat.Ino
}

func identify(n *Namespace) (string, error) {
	boot, err := sysctl.Get("kernel/random/boot_id")
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
		return boot + "/" + n.handle.UniqueId(), nil
	}
	return fmt.Sprintf("%s/%d", boot, cookie), err
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

// Announce has the kernel tell the caller's namespace of changes in this one, to those who listen to
// all namespaces: they hear of those with a number in their own, as the peer of a veth interface
// has. The number goes with the namespace.
func (n *Namespace) Announce() error {
	id, err := netlink.GetNetNsIdByFd(int(n.handle))
	if err == nil && id == unix.NETNSA_NSID_NOT_ASSIGNED {
		err = netlink.SetNetNsIdByFd(int(n.handle), unix.NETNSA_NSID_NOT_ASSIGNED) // the kernel chooses one
		if errors.Is(err, unix.EEXIST) {                                           // meanwhile
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("announce network namespace %s: %w", n.path, err)
	}
	return nil
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

// onNewThread runs fn on a locked thread that ends with it, so that no other goroutine
// runs in its namespace.
func onNewThread(fn func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, except from the main thread
		if unix.Gettid() == unix.Getpid() {
			// The main thread does not end: it would keep the namespace alive as long
			// as the process. While it is locked here, the inner goroutine gets
			// another thread.
			result <- onNewThread(fn)
			runtime.UnlockOSThread()
			return
		}
		result <- fn()
	}()
	return <-result
}
