// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// serve answers for ever: by TCP with the address of the client and what it writes, by UDP
// with each packet. What is sent to the port discard is read.
func serve() error {
	failed := make(chan error)
	go func() { failed <- accept(echo, answer) }()
	go func() { failed <- accept(discard, read) }()
	go func() { failed <- reflect() }()
	return <-failed
}

func accept(port string, handle func(net.Conn) error) error {
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			_ = handle(connection) // the client sees it
			_ = connection.Close() // the same
		}()
	}
}

func answer(connection net.Conn) error {
	if _, err := fmt.Fprintln(connection, connection.RemoteAddr()); err != nil {
		return err
	}
	_, err := io.Copy(connection, connection)
	return err
}

func read(connection net.Conn) error {
	_, err := io.Copy(io.Discard, connection)
	return err
}

// reflect returns each packet to its sender.
func reflect() error {
	socket, err := net.ListenPacket("udp", ":"+echo)
	if err != nil {
		return err
	}
	if err := enlarge(socket.(*net.UDPConn)); err != nil {
		return err
	}
	packet := make([]byte, 2048)
	for {
		n, from, err := socket.ReadFrom(packet)
		if err != nil {
			return err
		}
		_, _ = socket.WriteTo(packet[:n], from) // lost, as any packet can be
	}
}

// enlarge gives a socket room for the packets of seconds: what is lost on a machine with other
// load is not what is measured.
func enlarge(socket *net.UDPConn) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
	})
	return errors.Join(err, failed)
}
