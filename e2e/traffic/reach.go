// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// write is the size of a write, and writes is how many a connection has.
const (
	write  = 64 << 10
	writes = 4
)

// patience is how long servers may not be reached after the start, and a connection may take.
const patience = 20 * time.Second

var begun = time.Now()

// reach is an error unless each address has a server that sees this host's own address, and
// that returns what it gets.
func reach(addresses []string) error {
	var group errgroup.Group
	group.SetLimit(16)
	errs := make([]error, len(addresses))
	for i, address := range addresses {
		group.Go(func() error {
			if err := exchange(address); err != nil {
				errs[i] = fmt.Errorf("%s: %w", address, err)
			}
			return nil
		})
	}
	_ = group.Wait() // there are none
	return errors.Join(errs...)
}

func exchange(address string) error {
	connection, err := dial(address, echo)
	if err != nil {
		return err
	}
	defer connection.Close() //nolint:errcheck // all has been read
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	in := bufio.NewReader(connection)
	seen, err := in.ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the address that the server sees: %w", err)
	}
	if own := connection.LocalAddr().String(); strings.TrimSpace(seen) != own {
		return fmt.Errorf("the server sees %s, want %s", strings.TrimSpace(seen), own)
	}
	return transfer(connection, in)
}

// transfer writes and reads at the same time.
func transfer(connection net.Conn, in io.Reader) error {
	data := make([]byte, write)
	for i := range data {
		data[i] = byte(rand.N(256))
	}
	written := make(chan error, 1)
	go func() {
		for range writes {
			if _, err := connection.Write(data); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	got := make([]byte, write)
	for i := range writes {
		if n, err := io.ReadFull(in, got); err != nil {
			return fmt.Errorf("read what has been written: %d bytes of write %d: %w", n, i+1, err)
		}
		if !bytes.Equal(got, data) {
			return fmt.Errorf("write %d: other bytes than those that were written", i+1)
		}
	}
	return <-written
}

// refused is an error unless a host refuses a connection: it is reached, and has no server.
func refused(address string) error {
	for ; ; time.Sleep(50 * time.Millisecond) {
		connection, err := net.DialTimeout("tcp", net.JoinHostPort(address, echo), time.Second)
		if errors.Is(err, unix.ECONNREFUSED) {
			return nil
		}
		if err == nil {
			return errors.Join(errors.New("there is a server"), connection.Close())
		}
		if time.Since(begun) > patience {
			return err
		}
	}
}

// dial connects to a server that may not be reached yet.
func dial(address, port string) (net.Conn, error) {
	for ; ; time.Sleep(50 * time.Millisecond) {
		connection, err := net.DialTimeout("tcp", net.JoinHostPort(address, port), time.Second)
		if err == nil || time.Since(begun) > patience {
			return connection, err
		}
	}
}
