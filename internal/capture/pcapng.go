// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package capture

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// Writer writes frames in the format pcapng (draft-ietf-opsawg-pcapng), which tcpdump and Wireshark read. The library that has it
// links all protocols that it knows, and the program would be twice as slow to start.
type Writer struct {
	w io.Writer
	// ids are the numbers of the interfaces that are described, by index.
	ids map[int]uint32
}

const (
	blockSection   = 0x0a0d0d0a
	blockInterface = 1
	blockPacket    = 6

	optionEnd        = 0
	optionName       = 2 // of an interface
	optionFlags      = 2 // of a packet
	optionResolution = 9

	nanoseconds = 9 // 10^-9 s
	inbound     = 1
	outbound    = 2
)

// snapLength is more than any frame has, also those that the kernel joins.
const snapLength = 1 << 18

// NewWriter returns a writer that has begun its section.
func NewWriter(w io.Writer) (*Writer, error) {
	body := binary.NativeEndian.AppendUint32(nil, 0x1a2b3c4d) // tells the byte order
	body = binary.NativeEndian.AppendUint16(body, 1)          // version 1.0
	body = binary.NativeEndian.AppendUint16(body, 0)
	body = binary.NativeEndian.AppendUint64(body, 1<<64-1) // its length is not known
	n := &Writer{w, map[int]uint32{}}
	return n, n.block(blockSection, body)
}

func (n *Writer) block(kind uint32, body []byte) error {
	body = padded(body)
	length := uint32(len(body) + 12) // a frame is short
	block := binary.NativeEndian.AppendUint32(nil, kind)
	block = binary.NativeEndian.AppendUint32(block, length)
	block = append(block, body...)
	_, err := n.w.Write(binary.NativeEndian.AppendUint32(block, length))
	return err
}

// padded returns bytes that fill words of 32 bits.
func padded(b []byte) []byte { return append(b, make([]byte, (4-len(b)%4)%4)...) }

func option(to []byte, code uint16, value []byte) []byte {
	to = binary.NativeEndian.AppendUint16(to, code)
	to = binary.NativeEndian.AppendUint16(to, uint16(len(value)))
	return append(to, padded(append([]byte(nil), value...))...)
}

// linkTypes are those of the format, by the kernel's hardware types.
var linkTypes = map[uint16]uint16{
	1: 1, 772: 1, // Ethernet, and loopback, whose frames look so
	65534: 101, // tun: IP alone
}

// Write writes a frame of an interface, whose name it asks for once.
func (n *Writer) Write(f Frame, name func(index int) string) error {
	id, known := n.ids[f.Index]
	if !known {
		link, ok := linkTypes[f.Hardware]
		if !ok {
			return fmt.Errorf("interface %s is of hardware type %d: want Ethernet, loopback or a tunnel of IP", name(f.Index), f.Hardware)
		}
		id = uint32(len(n.ids)) // interfaces are few
		if err := n.describe(link, name(f.Index)); err != nil {
			return err
		}
		n.ids[f.Index] = id
	}
	at := uint64(f.Time.UnixNano()) // after 1970
	body := binary.NativeEndian.AppendUint32(nil, id)
	body = binary.NativeEndian.AppendUint32(body, uint32(at>>32))
	body = binary.NativeEndian.AppendUint32(body, uint32(at))
	body = binary.NativeEndian.AppendUint32(body, uint32(len(f.Data))) // at most snapLength
	body = binary.NativeEndian.AppendUint32(body, uint32(f.Length))    // at most snapLength
	body = padded(append(body, f.Data...))
	direction := uint32(inbound)
	if f.Sent {
		direction = outbound
	}
	body = option(body, optionFlags, binary.NativeEndian.AppendUint32(nil, direction))
	return n.block(blockPacket, option(body, optionEnd, nil))
}

func (n *Writer) describe(link uint16, name string) error {
	body := binary.NativeEndian.AppendUint16(nil, link)
	body = binary.NativeEndian.AppendUint16(body, 0) // reserved
	body = binary.NativeEndian.AppendUint32(body, snapLength)
	body = option(body, optionName, []byte(name))
	body = option(body, optionResolution, []byte{nanoseconds})
	return n.block(blockInterface, option(body, optionEnd, nil))
}

// Frame is a frame that an interface has sent or received.
type Frame struct {
	Time time.Time
	// Index is that of the interface, and Hardware its type, as the kernel numbers them.
	Index    int
	Hardware uint16
	// Sent is whether the interface has sent it.
	Sent bool
	// Data has the frame, and Length is how long it was.
	Data   []byte
	Length int
}
