// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package capture reads the frames that interfaces send and receive, and writes them for tcpdump and Wireshark.
package capture

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Source is a socket that gets the frames of interfaces.
type Source struct {
	file *os.File
	raw  syscall.RawConn
	// buffer has a frame, and control what the kernel tells of it.
	buffer, control []byte
}

// receiveBuffer holds what comes faster than it is read.
const receiveBuffer = 8 << 20

// Open opens a socket in the network namespace of the calling thread. It gets the frames of an interface; 0: of all.
func Open(index int) (*Source, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0) // none before it is bound
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	s := &Source{file: os.NewFile(uintptr(fd), "packet socket"), buffer: make([]byte, snapLength), control: make([]byte, 256)}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) // without it more is lost, and Lost tells
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: index}),
	)
	if err == nil {
		s.raw, err = s.file.SyscallConn()
	}
	if err != nil {
		_ = s.file.Close() // the first error is returned
		return nil, fmt.Errorf("bind a packet socket: %w", err)
	}
	return s, nil
}

func networkOrder(n uint16) uint16 { return n<<8 | n>>8 }

// Close closes the socket.
func (s *Source) Close() error { return s.file.Close() }

// Next returns the next frame, whose data is valid until the next call. When ctx ends the error is its cause.
func (s *Source) Next(ctx context.Context) (f Frame, err error) {
	if ctx.Err() != nil {
		return f, context.Cause(ctx)
	}
	stop := context.AfterFunc(ctx, func() { _ = s.file.SetReadDeadline(time.Unix(1, 0)) }) // it fails on a closed one
	defer stop()
	var received error
	err = s.raw.Read(func(fd uintptr) bool {
		f, received = s.receive(int(fd))
		return !errors.Is(received, unix.EAGAIN)
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return f, context.Cause(ctx)
	}
	return f, errors.Join(err, received)
}

func (s *Source) receive(fd int) (Frame, error) {
	n, controlled, _, from, err := unix.Recvmsg(fd, s.buffer, s.control, unix.MSG_TRUNC)
	if err != nil {
		return Frame{}, err
	}
	link, ok := from.(*unix.SockaddrLinklayer)
	if !ok {
		return Frame{}, fmt.Errorf("a packet socket got a frame of %T", from)
	}
	f := Frame{
		Time: time.Now(), Index: link.Ifindex, Hardware: link.Hatype, Sent: link.Pkttype == unix.PACKET_OUTGOING,
		Data: s.buffer[:min(n, len(s.buffer))], Length: n,
	}
	messages, err := unix.ParseSocketControlMessage(s.control[:controlled])
	if err != nil {
		return f, fmt.Errorf("what the kernel tells of a frame: %w", err)
	}
	for _, m := range messages {
		f.note(m)
	}
	return f, nil
}

// macs is the length of the addresses before the tag of a VLAN.
const macs = 12

// note takes the time of a frame, and puts the tag of a VLAN back, which the kernel keeps beside the frame.
func (f *Frame) note(m unix.SocketControlMessage) {
	switch {
	case m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= int(unsafe.Sizeof(unix.Timespec{})):
		f.Time = time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
	case m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA && len(m.Data) >= 20:
		const valid = 1 << 4 // TP_STATUS_VLAN_VALID
		if binary.NativeEndian.Uint32(m.Data)&valid == 0 || len(f.Data) < macs {
			return
		}
		tag := binary.BigEndian.AppendUint16(nil, binary.NativeEndian.Uint16(m.Data[18:]))
		tag = binary.BigEndian.AppendUint16(tag, binary.NativeEndian.Uint16(m.Data[16:]))
		f.Data = slices.Insert(slices.Clone(f.Data), macs, tag...)
		f.Length += len(tag)
	}
}

// Lost returns how many frames came faster than they were read, since the last call.
func (s *Source) Lost() (lost uint32, err error) {
	failed := s.raw.Control(func(fd uintptr) {
		var stats *unix.TpacketStats
		if stats, err = unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			lost = stats.Drops
		}
	})
	return lost, errors.Join(failed, err)
}
