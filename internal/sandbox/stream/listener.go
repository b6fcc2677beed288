// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package stream

import (
	"net"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
)

// Listen accepts TCP connections in the network namespace at a path, and returns each byte, until
// the test ends. It sends no packet by itself.
func Listen(t testing.TB, path, address string) {
	t.Helper()
	var listener net.Listener
	within(t, path, func() (err error) {
		listener, err = (&net.ListenConfig{KeepAlive: -1}).Listen(t.Context(), "tcp", address)
		return err
	})
	t.Cleanup(func() { _ = listener.Close() })
	go echo(listener)
}

func within(t testing.TB, path string, do func() error) {
	t.Helper()
	ns, err := netns.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close() //nolint:errcheck // it is only read
	if err := ns.Do(do); err != nil {
		t.Fatal(err)
	}
}

func echo(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close() //nolint:errcheck // the client has ended it
			buffer := make([]byte, 1)
			for {
				if _, err := conn.Read(buffer); err != nil {
					return
				}
				if _, err := conn.Write(buffer); err != nil {
					return
				}
			}
		}()
	}
}
