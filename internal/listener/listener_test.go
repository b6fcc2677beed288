// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package listener

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestAll opens sockets of each kind, and of those that do not count.
func TestAll(t *testing.T) {
	open := map[string]int{}
	for _, network := range []string{"tcp4", "tcp6"} {
		l, err := net.Listen(network, map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::]:0"}[network])
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		open[network] = l.Addr().(*net.TCPAddr).Port
	}
	udp, err := net.ListenPacket("udp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	connected, err := net.Dial("udp4", "127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	defer connected.Close()
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Listener{
		{"tcp", netip.MustParseAddr("127.0.0.1"), open["tcp4"]},
		{"tcp", netip.IPv6Unspecified(), open["tcp6"]},
		{"udp", netip.IPv4Unspecified(), udp.LocalAddr().(*net.UDPAddr).Port},
	} {
		if !slices.Contains(all, want) {
			t.Errorf("%v is not among the listeners", want)
		}
	}
	client := connected.LocalAddr().(*net.UDPAddr)
	if slices.Contains(all, Listener{"udp", client.AddrPort().Addr(), client.Port}) {
		t.Errorf("%v is connected and listens to nothing", client)
	}
}

func TestParseAddress(t *testing.T) {
	for _, text := range []string{"", "zz:1", "0100007F", "0100007F:1FFFF", "01:50"} {
		if got, err := parseAddress(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	if all, err := read(dir); err != nil || len(all) != 0 {
		t.Errorf("without tables: %v, %v", all, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tcp"), []byte("  sl  local_address rem_address   st\n   0: xx:0016 00000000:0000 0A\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := read(dir); err == nil {
		t.Errorf("a damaged table: %v, want an error", all)
	}
}
