// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package stream

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Load is what is sent, and what its cost is counted for.
type Load string

// The loads: a mebibyte of a connection, a datagram of 64 bytes, and a byte that goes by a connection and comes back.
const (
	Bulk     Load = "bulk"
	Packets  Load = "packets"
	Exchange Load = "exchange"
)

const (
	writeSize, packetSize = 128 << 10, 64
	// burst is how many datagrams a socket has to hold, and how many exchanges are one batch.
	burst    = 32
	costPort = 9009
	// limit is when what has not come is lost.
	limit = 10 * time.Second
)

// Flows are an established connection and a flow of datagrams. The first of each two sockets sends.
type Flows struct{ connection, datagrams [2]int }

// NewFlows makes them from one network namespace to an address of another one.
func NewFlows(t testing.TB, from, to string, address netip.Addr) *Flows {
	t.Helper()
	f, at, listener := &Flows{}, &unix.SockaddrInet4{Port: costPort, Addr: address.As4()}, -1
	within(t, to, func() error {
		var failed, failedToo error
		listener, failed = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		f.datagrams[1], failedToo = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		return errors.Join(failed, failedToo, unix.SetsockoptInt(listener, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.SetNonblock(listener, true),
			unix.Bind(f.datagrams[1], at), unix.Bind(listener, at), unix.Listen(listener, 1))
	})
	within(t, from, func() error {
		var failed, failedToo error
		f.connection[0], failed = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		f.datagrams[0], failedToo = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		err := errors.Join(failed, failedToo, unix.SetsockoptInt(f.connection[0], unix.IPPROTO_TCP, unix.TCP_SYNCNT, 3),
			unix.Connect(f.datagrams[0], at), unix.Connect(f.connection[0], at))
		if err != nil {
			return fmt.Errorf("connect %s to %s: %w", from, address, err)
		}
		return nil
	})
	err := await(func() (err error) {
		f.connection[1], _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC)
		return err
	})
	err = errors.Join(err, unix.Close(listener))
	for _, socket := range f.connection {
		err = errors.Join(err, unix.SetsockoptInt(socket, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
			unix.SetsockoptInt(socket, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds())))
	}
	if err = errors.Join(err, f.reply()); err != nil {
		t.Fatal(err)
	}
	return f
}

// await calls what does not wait, until it has what it is called for, or the limit.
func await(call func() error) error {
	for begun := time.Now(); ; {
		if err := call(); !errors.Is(err, unix.EAGAIN) || time.Since(begun) > limit {
			return err
		}
	}
}

func receive(socket int, data []byte) (sender unix.Sockaddr, err error) {
	err = await(func() (err error) {
		_, sender, err = unix.Recvfrom(socket, data, unix.MSG_DONTWAIT)
		return err
	})
	return sender, err
}

// reply has a datagram go and come back: to connection tracking a flow without an answer is a new one at each packet.
func (f *Flows) reply() error {
	data := make([]byte, packetSize)
	if _, err := unix.Write(f.datagrams[0], data); err != nil {
		return err
	}
	sender, err := receive(f.datagrams[1], data)
	if err != nil {
		return err
	}
	if err := unix.Sendto(f.datagrams[1], data, 0, sender); err != nil {
		return err
	}
	_, err = receive(f.datagrams[0], data)
	return err
}

// Close ends them.
func (f *Flows) Close() {
	for _, socket := range append(f.connection[:], f.datagrams[:]...) {
		_ = unix.Close(socket)
	}
}

// Cost returns the processor time of all that is done for one unit of a load: by the sender, by the kernel between the two, and by the receiver, which have one
// processor and get it before others. What else the machine does is not in it, and hardly slows it: of the batches, which take less than a millisecond, nine of ten
// were slower.
func (f *Flows) Cost(load Load, length time.Duration) (time.Duration, error) {
	send := map[Load]func() (int, error){Bulk: f.bulk, Packets: f.packets, Exchange: f.exchanges}[load]
	var answering []int
	end := func(err error) error { return err }
	if load == Exchange {
		answering, end = f.answering()
	}
	var costs []time.Duration
	err := end(pinned(func(thread int) (err error) {
		threads := append(answering, thread)
		for begun := time.Now(); err == nil && time.Since(begun) < length; {
			sent, before := 0, timeOf(threads)
			sent, err = send()
			costs = append(costs, (timeOf(threads)-before)/time.Duration(max(sent, 1)))
		}
		return err
	}))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", load, err)
	}
	slices.Sort(costs)
	return costs[len(costs)/10], nil
}

// answering starts answer, and returns its thread; none if it has failed. end ends it, and adds its error to that of the sender. Neither waits
// for the other when that has failed.
func (f *Flows) answering() (thread []int, end func(error) error) {
	ready, ended := make(chan int, 1), make(chan error, 1)
	go func() {
		err := pinned(func(thread int) error {
			ready <- thread
			return f.answer()
		})
		close(ready)
		if err != nil {
			_ = unix.Shutdown(f.connection[0], unix.SHUT_RDWR) // else it has ended
		}
		ended <- err
	}()
	if t, ok := <-ready; ok {
		thread = append(thread, t)
	}
	return thread, func(err error) error {
		if err == nil {
			_, err = unix.Write(f.connection[0], []byte{0}) // the last one
		}
		if err != nil {
			_ = unix.Shutdown(f.connection[1], unix.SHUT_RDWR) // else it has ended
		}
		return errors.Join(err, <-ended)
	}
}

// pinned calls do on a thread of its own, on the last processor.
func pinned(do func(thread int) error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // it ends with the goroutine
		var set unix.CPUSet
		set.Set(runtime.NumCPU() - 1)
		err = errors.Join(unix.SchedSetaffinity(0, &set), unix.Setpriority(unix.PRIO_PROCESS, 0, -20))
		if err == nil {
			err = do(unix.Gettid())
		}
	}()
	<-done
	return err
}

// timeOf is the processor time that threads have had.
func timeOf(threads []int) (total time.Duration) {
	for _, thread := range threads {
		var now unix.Timespec
		_ = unix.ClockGettime(int32(^thread<<3|6), &now) // a clock of a thread, which is there
		total += time.Duration(now.Nano())
	}
	return total
}

// bulk sends a mebibyte, in parts that the connection holds.
func (f *Flows) bulk() (int, error) {
	data := make([]byte, writeSize)
	for range (1 << 20) / writeSize {
		begun := time.Now()
		for sent, received := 0, 0; received < writeSize; {
			if sent < writeSize {
				n, err := unix.SendmsgN(f.connection[0], data[sent:], nil, nil, unix.MSG_DONTWAIT)
				if err != nil && !errors.Is(err, unix.EAGAIN) {
					return 0, err
				}
				sent += max(n, 0)
			}
			n, _, err := unix.Recvfrom(f.connection[1], data, unix.MSG_DONTWAIT)
			switch {
			case err == nil && n == 0:
				return 0, io.ErrUnexpectedEOF
			case err != nil && (!errors.Is(err, unix.EAGAIN) || time.Since(begun) > limit):
				return 0, err
			}
			received += max(n, 0)
		}
	}
	return 1, nil
}

// packets sends a burst, and receives it: nothing of it may be lost. The kernel may leave some to a thread of its own, which comes later.
func (f *Flows) packets() (int, error) {
	data := make([]byte, packetSize)
	for range burst {
		if _, err := unix.Write(f.datagrams[0], data); err != nil {
			return 0, err
		}
	}
	for i := range burst {
		if _, err := receive(f.datagrams[1], data); err != nil {
			return 0, fmt.Errorf("%d of %d datagrams: %w", i, burst, err)
		}
	}
	return burst, nil
}

// exchanges sends bytes that answer returns.
func (f *Flows) exchanges() (int, error) {
	for data, i := []byte{1}, 0; i < burst; i++ {
		if _, err := unix.Write(f.connection[0], data); err != nil {
			return 0, err
		}
		if err := readByte(f.connection[0], data); err != nil {
			return 0, fmt.Errorf("an answer: %w", err)
		}
	}
	return burst, nil
}

// answer returns bytes until one is 0.
func (f *Flows) answer() error {
	for data := []byte{1}; ; {
		if err := readByte(f.connection[1], data); err != nil || data[0] == 0 {
			return err
		}
		if _, err := unix.Write(f.connection[1], data); err != nil {
			return err
		}
	}
}

func readByte(socket int, data []byte) error {
	n, err := unix.Read(socket, data)
	if err == nil && n == 0 {
		err = io.ErrUnexpectedEOF
	}
	return err
}
