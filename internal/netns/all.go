// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"errors"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Exists tells whether there is a network namespace at path. One that cannot be opened
// exists.
func Exists(path string) bool {
	handle, err := refer(path)
	if err != nil {
		return !errors.Is(err, ErrMissing)
	}
	_ = handle.Close() // read only
	return true
}

// Inode returns that of the namespace at path; 0 if it cannot be opened.
func Inode(path string) uint64 {
	handle, err := refer(path)
	if err != nil {
		return 0
	}
	defer handle.Close() //nolint:errcheck // read only
	return (&Namespace{handle: handle}).Inode()
}

// Place is a network namespace of the host.
type Place struct {
	// Path leads to it. Where none does, it says how the namespace shows.
	Path string
	// Mounts are where it is mounted, in any mount namespace.
	Mounts []string
	// Inode tells it from others that exist at the same time; 0 where no path leads to it.
	Inode uint64
	// Addresses are those in it that are neither of loopback nor link-local.
	Addresses []netip.Addr
}

// Others returns the network namespaces of the host but the caller's: those of threads, mounts
// in all mount namespaces and open descriptors, and those that have a number in the caller's,
// as each has to which a veth interface leads. The error joins those of the namespaces and
// processes that could not be looked into; all others are returned.
func Others() ([]Place, error) {
	own, err := inodeOf("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	numbers, err := openNumbers()
	if err != nil {
		return nil, err
	}
	defer numbers.close()
	s := search{look: numbers.look, places: map[uint64]*Place{own: {}}}
	s.processes()
	if len(s.hidden) > 0 { // or unmounted meanwhile
		s.processes()
	}
	var places []Place
	for inode, place := range s.places {
		if inode != own {
			places = append(places, *place)
		}
	}
	rest, err := numbers.rest()
	return append(places, rest...), errors.Join(s.unseen(), err)
}

// Addresses returns the addresses in all network namespaces but the caller's, with the path
// of a namespace that has each, and those that the caller's publishes, with the link. A namespace that cannot be looked into is an error.
func Addresses() (map[netip.Addr]string, error) {
	places, err := Others()
	if err != nil {
		return nil, err
	}
	used, err := Published()
	if err != nil {
		return nil, err
	}
	for _, place := range places {
		for _, address := range place.Addresses {
			used[address] = place.Path
		}
	}
	return used, nil
}

// Unused returns those of the paths that exist and at which no process's namespace is. A process
// that cannot be looked into is an error.
func Unused(paths []string) (unused []string, err error) {
	found := map[string]uint64{}
	for _, path := range paths {
		if inode, err := inodeOf(path); err == nil {
			found[path] = inode
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	s := search{places: map[uint64]*Place{}}
	s.processes()
	for _, path := range paths {
		if inode, exists := found[path]; exists && s.places[inode] == nil {
			unused = append(unused, path)
		}
	}
	return unused, s.unseen()
}

func inodeOf(path string) (uint64, error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return stat.Ino, nil
}
