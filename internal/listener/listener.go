// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package listener lists the ports with a listener in the network namespace of the
// calling thread.
//
// It reads /proc/net. Binding each port instead could make a service fail that starts
// at the same instant, and sock_diag needs kernel modules that may not be loaded.
package listener

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Listener is a socket that receives the traffic of a host port.
type Listener struct {
	// Protocol is "tcp" or "udp".
	Protocol string
	// Address is unspecified for all addresses; "::" can include IPv4.
	Address netip.Addr
	Port    int
}

// procNet is that of the thread: the namespace of the process may be another.
const procNet = "/proc/thread-self/net"

// table is one file of procNet.
type table struct {
	name, protocol string
	// state is that of a socket which receives from any peer.
	state string
	// first is whether those sockets are listed before all others
	// (Documentation/networking/proc_net_tcp.rst).
	first bool
}

var tables = []table{
	{"tcp", "tcp", "0A", true}, // TCP_LISTEN
	{"tcp6", "tcp", "0A", true},
	{"udp", "udp", "07", false}, // TCP_CLOSE: not connected
	{"udp6", "udp", "07", false},
}

// All returns the listeners of TCP and UDP, IPv4 and IPv6.
func All() ([]Listener, error) { return read(procNet) }

func read(dir string) ([]Listener, error) {
	var all []Listener
	for _, t := range tables {
		file, err := os.Open(filepath.Join(dir, t.name))
		if errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list listeners: %w", err)
		}
		found, err := t.parse(file)
		_ = file.Close() // read only
		if err != nil {
			return nil, fmt.Errorf("list listeners: %s: %w", file.Name(), err)
		}
		all = append(all, found...)
	}
	return all, nil
}

func (t table) parse(r io.Reader) ([]Listener, error) {
	var found []Listener
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || fields[1] == "local_address" {
			continue
		}
		if fields[3] != t.state {
			if t.first {
				break
			}
			continue
		}
		address, err := parseAddress(fields[1])
		if err != nil {
			return nil, err
		}
		found = append(found, Listener{t.protocol, address.Addr(), int(address.Port())})
	}
	return found, lines.Err()
}

// parseAddress reads "0100007F:1F90": words of 32 bits in the machine's order,
// then the port.
func parseAddress(text string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(text, ":")
	words, err := hex.DecodeString(host)
	if err != nil || len(words)%4 != 0 {
		return netip.AddrPort{}, fmt.Errorf("address %q: want hexadecimal words", text)
	}
	for i := 0; i < len(words); i += 4 {
		binary.NativeEndian.PutUint32(words[i:], binary.BigEndian.Uint32(words[i:]))
	}
	address, ok := netip.AddrFromSlice(words)
	number, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}, fmt.Errorf("address %q: want an address and a port", text)
	}
	return netip.AddrPortFrom(address.Unmap(), uint16(number)), nil
}
