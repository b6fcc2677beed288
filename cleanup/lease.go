// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/leases"
	"github.com/allocnet/allocnet/state"
)

// leaseDirs returns the directories of leases below the bases: those that have
// host-local's lock file.
//
// A directory that is reached by two names, such as those below /run and
// /var/run, is listed once: its lock cannot be had twice.
func leaseDirs(bases []string) []string {
	var dirs []string
	for _, base := range bases {
		real, err := filepath.EvalSymlinks(base)
		if err != nil { // missing: no leases
			continue
		}
		entries, _ := os.ReadDir(real)
		for _, entry := range entries {
			dir := filepath.Join(real, entry.Name())
			if _, err := os.Lstat(filepath.Join(dir, leases.LockName)); err == nil {
				dirs = append(dirs, dir)
			}
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// scanLeases lists the leases in a directory that networks use.
func scanLeases(dir string, networks []string) (found scanResult) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		found.problem(dir, err)
		return found
	}
	for _, entry := range entries {
		name := entry.Name()
		if leases.IsNote(name) {
			continue
		}
		path := filepath.Join(dir, name)
		o, err := readLease(path, networks)
		switch {
		case errors.Is(err, fs.ErrNotExist): // freed since it was listed
		case err != nil:
			found.problem(path, err)
		default:
			found.Objects = append(found.Objects, o)
		}
	}
	return found
}

// readLease reads a file that is named after an address and holds the container
// ID and, in another line, the interface. It is of one of the networks.
func readLease(path string, networks []string) (Object, error) {
	address, err := netip.ParseAddr(filepath.Base(path))
	if err != nil || address.Zone() != "" {
		return Object{}, errors.New("is not a lease: its name is not an address")
	}
	content, err := readSmall(path)
	if err != nil {
		return Object{}, err
	}
	lines := strings.Fields(content)
	if len(lines) == 0 || len(lines) > 2 || state.ValidateContainerID(lines[0]) != nil || strings.ContainsAny(content, "/\x00") {
		return Object{}, fmt.Errorf("is not a lease: want a container ID and an interface, got %.60q", content)
	}
	owner := ownerOf("", lines[0], "")
	if len(networks) == 1 {
		owner.Network = networks[0]
	}
	if len(lines) == 2 {
		owner.Interface = lines[1]
	}
	info, err := os.Lstat(path)
	if err != nil {
		return Object{}, err
	}
	return Object{
		Kind: Lease, Owner: owner, Where: path, Addresses: []netip.Addr{address}, Created: info.ModTime(), networks: networks,
		file: &file{path: path, content: content, leases: filepath.Dir(path)},
	}, nil
}

// leaseLockTimeout limits the wait for a lock of leases. host-local holds it for
// milliseconds.
const leaseLockTimeout = 30 * time.Second

// lockLeases takes the locks of the directories as host-local takes them.
// While they are held no address is given out or freed.
func lockLeases(ctx context.Context, dirs []string) (unlock func(), err error) {
	var locks []*os.File
	unlock = func() {
		for _, lock := range locks {
			files.CloseLocked(lock)
		}
	}
	ctx, stop := context.WithTimeoutCause(ctx, leaseLockTimeout, fmt.Errorf("another process holds it for more than %s", leaseLockTimeout))
	defer stop()
	slices.Sort(dirs) // each process takes them in this order
	for _, dir := range slices.Compact(dirs) {
		lock, err := lockFile(ctx, filepath.Join(dir, leases.LockName))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			unlock()
			return nil, fmt.Errorf("lock the leases in %s: %w", dir, err)
		}
		locks = append(locks, lock)
	}
	return unlock, nil
}

func lockFile(ctx context.Context, path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := files.Lock(ctx, file, unix.LOCK_EX); err != nil {
		_ = file.Close() // never written
		return nil, err
	}
	return file, nil
}

// leaseUsers are the networks that keep their leases in a directory, by its path without
// links. A directory of host-local is named after its network, but one of allocnet-ipam after
// the pool, which has another name, and which several networks can use.
type leaseUsers map[string][]string

func (d directory) leaseUsers(conflists []json.RawMessage) leaseUsers {
	users := leaseUsers{}
	for _, conflist := range conflists {
		var list struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(conflist, &list) != nil || list.Name == "" { // no plugin ran with it
			continue
		}
		for _, conf := range pluginConfs(conflist) {
			base, err := filepath.EvalSymlinks(cmp.Or(d.configured(conf), d.paths[0]))
			name := conf.leaseDir(list.Name)
			if err != nil || name == "" { // a missing directory has no leases
				continue
			}
			dir := filepath.Join(base, name)
			if !slices.Contains(users[dir], list.Name) {
				users[dir] = append(users[dir], list.Name)
			}
		}
	}
	return users
}

// leaseDir returns the name of the directory that has the leases of a network's plugin; empty
// if it has none.
func (c pluginConf) leaseDir(network string) string {
	switch c.IPAM.Type {
	case "host-local":
		return network
	case "allocnet-ipam":
		return c.IPAM.Pool
	}
	return ""
}

// of returns the networks that use a directory. That of an unknown network is taken for one
// of host-local.
func (u leaseUsers) of(dir string) []string {
	if networks := u[dir]; len(networks) > 0 {
		return networks
	}
	return []string{filepath.Base(dir)}
}
