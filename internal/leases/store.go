// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package leases keeps the leases of addresses on this host as the host-local plugin does, in
// its files and under its lock.
package leases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

// defaultDir is where host-local keeps its networks unless "dataDir" says otherwise.
const defaultDir = "/var/lib/cni/networks"

// LockName is the file of a network's directory whose lock is that of its leases. lastReserved begins the names of the files
// that have the address reserved last in a set of ranges.
const (
	LockName     = "lock"
	lastReserved = "last_reserved_ip."
)

// IsNote tells whether a file of a network's directory is one that is there beside leases.
func IsNote(name string) bool { return name == LockName || strings.HasPrefix(name, lastReserved) }

// Store is host-local's directory of one network: a file for each lease, which is named
// after the address and holds its owner. It has the files, the lock and the results of the
// plugin's own store, which processes of both kinds may use at the same time. But it does
// not read every lease for every question: see index.
//
// A store is locked from when it is opened until it is closed.
type Store struct {
	dir  string
	lock *os.File
	// index has the leases; nil until they are read.
	index *index
	// fresh is whether all leases were read in this call, so that the index is right.
	fresh   bool
	changed bool
}

// Open opens and locks the leases of a network, making the directory if it is missing.
func Open(ctx context.Context, dataDir, network string) (*Store, error) {
	dir := directory(dataDir, network)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := files.Open(filepath.Join(dir, LockName), os.O_CREATE|os.O_RDONLY, 0o750)
	if err != nil {
		return nil, err
	}
	if err := files.Lock(ctx, lock, unix.LOCK_EX); err != nil {
		_ = lock.Close() // read only
		return nil, fmt.Errorf("lock %s, which another process has: %w", lock.Name(), err)
	}
	return &Store{dir: dir, lock: lock, index: readIndex(dir)}, nil
}

func directory(dataDir, network string) string {
	if dataDir == "" {
		dataDir = defaultDir
	}
	return filepath.Join(dataDir, network)
}

// Close writes the index, and unlocks the store.
func (s *Store) Close() error {
	if s.index != nil && s.changed {
		s.index.write(s.dir)
	}
	files.CloseLocked(s.lock)
	return nil
}

// Lock does nothing: the store is locked while it is open.
func (s *Store) Lock() error { return nil }

// Unlock does nothing.
func (s *Store) Unlock() error { return nil }

// Create makes a lease. It returns false if the address has one.
func (s *Store) Create(id, ifname string, ip net.IP) (bool, error) {
	name, content := ip.String(), leaseContent(id, ifname)
	created, err := createLease(filepath.Join(s.dir, name), content)
	if err != nil || !created {
		return false, err
	}
	if s.index != nil {
		s.index.add(name, content)
		s.changed = true
	}
	return true, nil
}

// Reserve makes a lease as the plugin does, which notes the address that it reserved last. It
// returns false if the address has a lease.
func (s *Store) Reserve(id, ifname string, ip net.IP, rangeID string) (bool, error) {
	created, err := s.Create(id, ifname, ip)
	if err != nil || !created {
		return false, err
	}
	err = files.Overwrite(filepath.Join(s.dir, lastReserved+rangeID), []byte(ip.String()), 0o600)
	return err == nil, err
}

// LastReservedIP returns the address that was reserved last in a set of ranges.
func (s *Store) LastReservedIP(rangeID string) (net.IP, error) {
	data, err := files.Read(filepath.Join(s.dir, lastReserved+rangeID))
	if err != nil {
		return nil, err
	}
	return net.ParseIP(string(data)), nil
}

// ReleaseByID removes the leases of an attachment: if it has none, those of an old version,
// which have the container ID alone. As in the plugin, one that cannot be removed is no error.
func (s *Store) ReleaseByID(id, ifname string) error {
	if found, _ := s.release(leaseContent(id, ifname)); !found {
		_, _ = s.release(strings.TrimSpace(id))
	}
	return nil
}

// RemoveByID is ReleaseByID with an error for each lease that cannot be removed.
func (s *Store) RemoveByID(id, ifname string) error {
	found, err := s.release(leaseContent(id, ifname))
	if !found && err == nil {
		_, err = s.release(strings.TrimSpace(id))
	}
	return err
}

// release removes the leases with that content. It returns whether it removed one.
func (s *Store) release(content string) (found bool, err error) {
	for _, name := range s.find(content) {
		if errRemove := os.Remove(filepath.Join(s.dir, name)); errRemove != nil {
			err = errors.Join(err, errRemove)
			continue
		}
		s.index.remove(name, content)
		s.changed, found = true, true
	}
	return found, err
}

// Remove removes the lease of an address if it is this attachment's. It returns whether it was.
func (s *Store) Remove(id, ifname string, ip net.IP) (bool, error) {
	name, content := ip.String(), leaseContent(id, ifname)
	path := filepath.Join(s.dir, name)
	got, err := readLease(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && got != content {
		return false, nil
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err == nil && s.index != nil {
		s.index.remove(name, content)
		s.changed = true
	}
	return err == nil, err
}

// Owner returns the attachment that has the lease of an address. The interface is empty in
// leases of an old version. It returns false if there is no lease.
func (s *Store) Owner(ip net.IP) (id, ifname string, leased bool, err error) {
	lease, err := Read(s.dir, ip.String())
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", false, nil
	}
	return lease.ID, lease.Interface, err == nil, err
}

// List returns the addresses of a network that have a lease, in no order. It takes no lock.
func List(dataDir, network string) ([]net.IP, error) {
	dir, err := files.IfExists(os.Open(directory(dataDir, network)))
	if dir == nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // read only
	names, err := dir.Readdirnames(-1)
	var ips []net.IP
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			ips = append(ips, ip)
		}
	}
	return ips, err
}

// Fresh returns whether all leases were read since the store was opened. That they were not is
// a proof that the last process with this package's store made the last change.
func (s *Store) Fresh() bool { return s.fresh }

// GetByID returns the addresses of an attachment's leases.
func (s *Store) GetByID(id, ifname string) []net.IP {
	names := slices.Concat(s.find(leaseContent(id, ifname)), s.find(strings.TrimSpace(id)))
	slices.Sort(names)
	var ips []net.IP
	for _, name := range names {
		if ip := net.ParseIP(filepath.Base(name)); ip != nil {
			ips = append(ips, ip)
		}
	}
	return ips
}

func leaseContent(id, ifname string) string { return strings.TrimSpace(id) + "\r\n" + ifname }

// find returns the names of the leases with that content. If one is not as the index has it,
// all are read.
func (s *Store) find(content string) []string {
	if s.index == nil {
		s.readAll()
	}
	names := s.index.find(content)
	if s.fresh {
		return names
	}
	for _, name := range names {
		if got, err := readLease(filepath.Join(s.dir, name)); err != nil || got != content {
			s.readAll()
			return s.index.find(content)
		}
	}
	return names
}

func (s *Store) readAll() {
	s.index, s.fresh, s.changed = &index{}, true, true
	_ = filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(s.dir, path)
		switch {
		case err != nil || relErr != nil:
			s.index.partial = true
		case entry.IsDir():
			s.index.partial = s.index.partial || path != s.dir // its own changes do not show in s.dir
		case !IsNote(name):
			s.read(name)
		}
		return nil // as the plugin, which skips what it cannot read
	})
}

func (s *Store) read(name string) {
	content, err := readLease(filepath.Join(s.dir, name))
	if err != nil {
		s.index.partial = true
		return
	}
	s.index.add(name, content)
}

func readLease(path string) (string, error) {
	data, err := files.ReadStart(path, os.O_RDONLY, mostBytes)
	return strings.TrimSpace(string(data)), err
}

// mostBytes of a lease are read. More is no owner's, and the lease is one all the same.
const mostBytes = 4 << 10

// createLease makes a lease file with its content in one step, so that a process that is
// killed leaves none without an owner. It returns false if there is one.
func createLease(path, content string) (bool, error) {
	if _, err := os.Lstat(path); err == nil {
		return false, nil
	}
	file, err := os.OpenFile(filepath.Dir(path), unix.O_TMPFILE|os.O_WRONLY, 0o600)
	if err != nil { // a file system without files that have no name
		return createLeaseInSteps(path, content)
	}
	defer file.Close() //nolint:errcheck // a failed write is reported by it
	if _, err := file.WriteString(content); err != nil {
		return false, err
	}
	err = unix.Linkat(int(file.Fd()), "", unix.AT_FDCWD, path, unix.AT_EMPTY_PATH)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrExist):
		return false, nil
	}
	return createLeaseInSteps(path, content) // without the capability for links to open files
}

// createLeaseInSteps makes a lease file as the plugin does.
func createLeaseInSteps(path, content string) (bool, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_EXCL|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = file.WriteString(content)
	if err = errors.Join(err, file.Close()); err != nil {
		return false, errors.Join(err, os.Remove(path))
	}
	return true, nil
}
