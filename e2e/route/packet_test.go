// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
)

const echoPort = 7

// echo answers packets to an address in a namespace.
func echo(t testing.TB, ns *netns.Namespace, address string) {
	t.Helper()
	var conn net.PacketConn
	if err := ns.Do(func() (err error) {
		conn, err = net.ListenPacket("udp", net.JoinHostPort(address, fmt.Sprint(echoPort)))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 1<<16)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(buffer[:n], from)
		}
	}()
}

// dial returns a socket of a namespace whose packets are not fragmented, and which gets the errors
// of routers.
func dial(from *netns.Namespace, address string) (net.Conn, error) {
	var conn net.Conn
	err := from.Do(func() (err error) {
		d := net.Dialer{ControlContext: func(_ context.Context, network, _ string, raw syscall.RawConn) error {
			level, discover, errs := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_RECVERR
			if strings.HasSuffix(network, "6") {
				level, discover, errs = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_RECVERR
			}
			var set error
			err := raw.Control(func(fd uintptr) {
				set = errors.Join(unix.SetsockoptInt(int(fd), level, discover, unix.IP_PMTUDISC_DO), unix.SetsockoptInt(int(fd), level, errs, 1))
			})
			return errors.Join(err, set)
		}}
		conn, err = d.Dial("udp", net.JoinHostPort(address, fmt.Sprint(echoPort)))
		return err
	})
	return conn, err
}

// send sends a packet of the allocation, so many bytes with its headers, and returns the error unless
// it is answered.
func send(h *host, address string, bytes int) error {
	if err := sendFrom(h.inside, address, bytes); err != nil {
		return fmt.Errorf("%s to %s, %d bytes: %w", h.name, address, bytes, err)
	}
	return nil
}

func sendFrom(from *netns.Namespace, address string, bytes int) error {
	conn, err := dial(from, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	headers := 20 + 8
	if strings.Contains(address, ":") {
		headers = 40 + 8
	}
	if _, err = conn.Write(make([]byte, bytes-headers)); err == nil {
		_ = conn.SetReadDeadline(time.Now().Add(lost))
		_, err = conn.Read(make([]byte, bytes))
	}
	return err
}

// lost is after how long a packet counts as lost. A machine that is busy delays some.
const lost = 2 * time.Second

// requireTraffic: every allocation reaches every other with packets of the size.
func requireTraffic(t testing.TB, hosts []*host, bytes int) {
	t.Helper()
	for _, h := range hosts {
		for _, other := range hosts {
			for _, a := range other.addresses {
				if err := send(h, a, bytes); err != nil {
					t.Errorf("%v\n%s", err, h.state(t))
				}
			}
		}
	}
}
