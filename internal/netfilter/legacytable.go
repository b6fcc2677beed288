// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// LegacyTables returns the names of the tables that exist; none if the kernel does not have
// iptables-legacy. To ask for another one makes it.
func LegacyTables(family Family) ([]string, error) {
	path := "/proc/thread-self/net/ip_tables_names"
	if family == IPv6 {
		path = "/proc/thread-self/net/ip6_tables_names"
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(data)), err
}

// Of linux/netfilter_ipv4/ip_tables.h; those of IPv6 have the same values. Both structures begin
// with the table's name.
const (
	getInfo    = 64
	getEntries = 65

	sizeofInfo = 84
	// Offsets of the size of all entries, in the information and in the request for them, and
	// of the first entry.
	infoSize     = 80
	entriesSize  = 32
	entriesBegin = 40
)

// legacyTable is one of a family, with a socket to ask for it.
type legacyTable struct {
	socket, level int
	name          string
}

func openLegacy(family Family, name string) (*legacyTable, error) {
	domain, level := unix.AF_INET, unix.IPPROTO_IP
	if family == IPv6 {
		domain, level = unix.AF_INET6, unix.IPPROTO_IPV6
	}
	socket, err := unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, fmt.Errorf("failed to read table %q of iptables-legacy: %w", name, err)
	}
	return &legacyTable{socket, level, name}, nil
}

func (t *legacyTable) close() { _ = unix.Close(t.socket) } // nothing is written

func (t *legacyTable) size() (int, error) {
	info := make([]byte, sizeofInfo)
	copy(info, t.name)
	if err := t.get(getInfo, info); err != nil {
		return 0, fmt.Errorf("failed to read the size of table %q of iptables-legacy: %w", t.name, err)
	}
	return int(binary.NativeEndian.Uint32(info[infoSize:])), nil
}

// get gets an option whose value says what is asked for.
func (t *legacyTable) get(option int, value []byte) error {
	length := uint32(len(value))
	_, _, failed := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(t.socket), uintptr(t.level), uintptr(option),
		uintptr(unsafe.Pointer(&value[0])), uintptr(unsafe.Pointer(&length)), 0)
	if failed != 0 {
		return failed
	}
	return nil
}

// LegacySize returns the size of all entries of a table that exists, in bytes.
func LegacySize(family Family, name string) (int, error) {
	t, err := openLegacy(family, name)
	if err != nil {
		return 0, err
	}
	defer t.close()
	return t.size()
}

// ReadLegacy returns the entries of a table that exists, as the kernel has them: a chain begins with an
// entry that holds its name.
func ReadLegacy(family Family, name string) ([]byte, error) {
	t, err := openLegacy(family, name)
	if err != nil {
		return nil, err
	}
	defer t.close()
	for range readAttempts {
		var size int
		if size, err = t.size(); err != nil {
			return nil, err
		}
		entries := make([]byte, entriesBegin+size)
		copy(entries, name)
		binary.NativeEndian.PutUint32(entries[entriesSize:], uint32(size))
		err = t.get(getEntries, entries)
		if err == nil {
			return entries[entriesBegin:], nil
		}
		if !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return nil, fmt.Errorf("failed to read table %q of iptables-legacy: %w", name, err)
}

// readAttempts is how often a table is read that has changed between its size and its entries.
const readAttempts = 100
