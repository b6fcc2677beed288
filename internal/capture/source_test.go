// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package capture

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootSource: what is sent over an interface comes, with its time and direction, until the context ends.
func TestRootSource(t *testing.T) {
	roottest.Require(t)
	for name, index := range map[string]int{"all": 0, "lo": 1} {
		s, err := Open(index)
		if err != nil {
			t.Fatal(err)
		}
		text := []byte("captured on " + name)
		conn, err := net.Dial("udp", "127.0.0.1:9")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(text); err != nil {
			t.Fatal(err)
		}
		found := map[bool]bool{}
		for len(found) < 2 {
			f, err := s.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(f.Data, text) && time.Since(f.Time) < time.Minute && f.Index == 1 && f.Length == len(f.Data) {
				found[f.Sent] = true
			}
		}
		ended, end := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		time.AfterFunc(time.Millisecond, func() { end(cause) })
		for err = nil; err == nil; {
			_, err = s.Next(ended)
		}
		if !errors.Is(err, cause) {
			t.Errorf("%s: %v, want the cause", name, err)
		}
		if lost, err := s.Lost(); err != nil || lost > 0 {
			t.Errorf("%s: %d lost, %v", name, lost, err)
		}
		if err := errors.Join(conn.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestTag: the tag of a VLAN is put back between the addresses and the type.
func TestTag(t *testing.T) {
	data := make([]byte, 20)
	binary.NativeEndian.PutUint32(data, 1<<4)
	binary.NativeEndian.PutUint16(data[16:], 42)
	binary.NativeEndian.PutUint16(data[18:], 0x8100)
	f := Frame{Data: []byte("destinsource\x08\x00ip"), Length: 16}
	f.note(unix.SocketControlMessage{Header: unix.Cmsghdr{Level: unix.SOL_PACKET, Type: unix.PACKET_AUXDATA}, Data: data})
	if want := "destinsource\x81\x00\x00\x2a\x08\x00ip"; string(f.Data) != want || f.Length != 20 {
		t.Errorf("%q of %d, want %q", f.Data, f.Length, want)
	}
}
