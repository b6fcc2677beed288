// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unsafe"

	"github.com/coreos/go-iptables/iptables"
	"golang.org/x/sys/unix"
)

// lacksLegacyChain tells whether it is certain that iptables-legacy has no such chain. Only a host
// without the program has the kernel list the table: the program is asked otherwise.
func (h *iptablesHost) lacksLegacyChain(table, chain string) bool {
	if h.lacksLegacyTable(table) {
		return true
	}
	if !h.missing {
		return false
	}
	entries, err := readLegacyTable(h.family, table)
	return err == nil && !bytes.Contains(entries, append([]byte(chain), 0))
}

// lacksLegacyTable tells whether iptables-legacy has not made a table in this network
// namespace.
func (h *iptablesHost) lacksLegacyTable(table string) bool {
	data, err := os.ReadFile(legacyTables(h.family))
	if errors.Is(err, fs.ErrNotExist) {
		return true // the kernel does not have iptables-legacy
	}
	return err == nil && !slices.Contains(strings.Fields(string(data)), table)
}

func legacyTables(family iptables.Protocol) string {
	if family == iptables.ProtocolIPv6 {
		return "/proc/thread-self/net/ip6_tables_names"
	}
	return "/proc/thread-self/net/ip_tables_names"
}

// Of linux/netfilter_ipv4/ip_tables.h; those of IPv6 have the same values. Both structures begin
// with the table's name.
const (
	legacyGetInfo    = 64
	legacyGetEntries = 65

	sizeofLegacyInfo = 84
	// Offsets of the size of all entries, in the information and in the request for them, and
	// of the first entry.
	legacyInfoSize     = 80
	legacyEntriesSize  = 32
	legacyEntriesBegin = 40
)

// readLegacyTable returns the entries of a table that exists, as the kernel has them: a chain
// begins with an entry that holds its name.
func readLegacyTable(family iptables.Protocol, table string) ([]byte, error) {
	domain, level := unix.AF_INET, unix.IPPROTO_IP
	if family == iptables.ProtocolIPv6 {
		domain, level = unix.AF_INET6, unix.IPPROTO_IPV6
	}
	socket, err := unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, fmt.Errorf("failed to read table %q of iptables-legacy: %w", table, err)
	}
	defer unix.Close(socket) //nolint:errcheck // nothing is written
	info := make([]byte, sizeofLegacyInfo)
	copy(info, table)
	if err := getSocketOption(socket, level, legacyGetInfo, info); err != nil {
		return nil, fmt.Errorf("failed to read the size of table %q of iptables-legacy: %w", table, err)
	}
	size := info[legacyInfoSize:]
	entries := make([]byte, legacyEntriesBegin+int(binary.NativeEndian.Uint32(size)))
	copy(entries, table)
	copy(entries[legacyEntriesSize:], size)
	if err := getSocketOption(socket, level, legacyGetEntries, entries); err != nil { // EAGAIN: it has changed
		return nil, fmt.Errorf("failed to read table %q of iptables-legacy: %w", table, err)
	}
	return entries[legacyEntriesBegin:], nil
}

// getSocketOption gets an option whose value says what is asked for.
func getSocketOption(socket, level, option int, value []byte) error {
	length := uint32(len(value))
	_, _, failed := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(socket), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&value[0])), uintptr(unsafe.Pointer(&length)), 0)
	if failed != 0 {
		return failed
	}
	return nil
}
