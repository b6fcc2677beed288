// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

// throughput prints how many Mbit a server reads in a second.
func throughput(address string, milliseconds int) error {
	connection, err := dial(address, discard)
	if err != nil {
		return err
	}
	data := make([]byte, write)
	begun, length, total := time.Now(), time.Duration(milliseconds)*time.Millisecond, 0
	for time.Since(begun) < length {
		n, err := connection.Write(data)
		if err != nil {
			return err
		}
		total += n
	}
	if err := drained(connection); err != nil {
		return err
	}
	fmt.Printf("%.1f\n", float64(total)*8/1e6/time.Since(begun).Seconds())
	return nil
}

// drained ends the connection, and waits until the server has done so: it has read all then.
func drained(connection net.Conn) error {
	if err := connection.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, connection)
	return err
}

// latency prints the median of the times in which a server returns a byte, in microseconds.
func latency(address string, count int) error {
	connection, err := dial(address, echo)
	if err != nil {
		return err
	}
	in := bufio.NewReader(connection)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	var took []time.Duration
	for range count {
		begun := time.Now()
		if _, err := connection.Write([]byte{1}); err != nil {
			return err
		}
		if _, err := in.ReadByte(); err != nil {
			return err
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	fmt.Printf("%.1f\n", float64(took[len(took)/2].Nanoseconds())/1e3)
	return nil
}
