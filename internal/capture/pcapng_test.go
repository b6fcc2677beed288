// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"
)

// readBlocks takes a file apart, as the draft describes it.
func readBlocks(t *testing.T, file []byte) (kinds []uint32, bodies [][]byte) {
	t.Helper()
	for len(file) > 0 {
		if len(file) < 12 {
			t.Fatalf("%d bytes after the last block", len(file))
		}
		length := binary.NativeEndian.Uint32(file[4:])
		if length%4 != 0 || int(length) > len(file) || binary.NativeEndian.Uint32(file[length-4:]) != length {
			t.Fatalf("a block of %d bytes, of %d", length, len(file))
		}
		kinds, bodies = append(kinds, binary.NativeEndian.Uint32(file)), append(bodies, file[8:length-4])
		file = file[length:]
	}
	return kinds, bodies
}

// TestWriter: a section, each interface before its first frame, and the frames as they are.
func TestWriter(t *testing.T) {
	var file bytes.Buffer
	w, err := NewWriter(&file)
	if err != nil {
		t.Fatal(err)
	}
	names := func(index int) string { return map[int]string{1: "lo", 7: "eth0"}[index] }
	at := time.Unix(1_700_000_000, 123_456_789)
	for _, f := range []Frame{
		{Time: at, Index: 7, Hardware: 1, Data: []byte("frame"), Length: 1500}, {Time: at, Index: 1, Hardware: 772, Sent: true, Data: []byte("four"), Length: 4}, {Time: at, Index: 7, Hardware: 1, Data: nil},
	} {
		if err := w.Write(f, names); err != nil {
			t.Fatal(err)
		}
	}
	kinds, bodies := readBlocks(t, file.Bytes())
	if want := []uint32{blockSection, blockInterface, blockPacket, blockInterface, blockPacket, blockPacket}; len(kinds) != len(want) || !equal(kinds, want) {
		t.Fatalf("blocks %v, want %v", kinds, want)
	}
	if !bytes.Contains(bodies[1], []byte("eth0")) || !bytes.Contains(bodies[3], []byte("lo\x00\x00")) {
		t.Errorf("interfaces %q and %q", bodies[1], bodies[3])
	}
	for i, want := range map[int]struct {
		id, captured, length, direction uint32
		data                            string
	}{2: {0, 5, 1500, inbound, "frame\x00\x00\x00"}, 4: {1, 4, 4, outbound, "four"}, 5: {0, 0, 0, inbound, ""}} {
		b := bodies[i]
		word := func(at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
		stamp := time.Unix(0, int64(uint64(word(4))<<32|uint64(word(8))))
		flags := b[20+len(want.data):]
		if word(0) != want.id || word(12) != want.captured || word(16) != want.length || !stamp.Equal(at) || string(b[20:20+len(want.data)]) != want.data || binary.NativeEndian.Uint32(flags[4:]) != want.direction {
			t.Errorf("block %d is %q, want %+v", i, b, want)
		}
	}
}

func equal(a, b []uint32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestWriterRefuses: an interface whose frames the format cannot have, and a full disk.
func TestWriterRefuses(t *testing.T) {
	w, err := NewWriter(&bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(Frame{Index: 3, Hardware: 32}, func(int) string { return "ib0" }); err == nil || !strings.Contains(err.Error(), "ib0") {
		t.Errorf("InfiniBand: %v", err)
	}
	if _, err := NewWriter(full{}); !errors.Is(err, errFull) {
		t.Errorf("a full disk: %v", err)
	}
}

var errFull = errors.New("no space")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
