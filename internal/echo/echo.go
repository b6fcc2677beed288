// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package echo sends ICMP echo requests and waits for the replies. It needs CAP_NET_RAW.
package echo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// Request says where an echo request is sent.
type Request struct {
	Target netip.Addr
	// Device is the interface that it is sent through, whatever the routes say. Empty: that of
	// the route; a link-local target has its interface as zone.
	Device string
	// Source is the address that the reply is sent to. Not valid: the kernel selects it.
	Source netip.Addr
	// Size is the length of the IP packet, which nothing on the way may take apart. 0: it is short.
	Size int
}

// ErrSilent is returned if no reply came in time.
var ErrSilent = errdefs.New(errdefs.Timeout, "no reply")

// Ping sends a request, and returns how long the reply took. It waits until ctx ends.
func Ping(ctx context.Context, r Request) (time.Duration, error) {
	conn, err := r.listen(ctx)
	if err != nil {
		return 0, fmt.Errorf("echo request to %s: %w", r.Target, err)
	}
	defer conn.Close()                                                               //nolint:errcheck // nothing is left to write
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // ends what waits
	defer stop()
	echo := &icmp.Echo{ID: int(rand.Uint32N(1 << 16)), Seq: int(rand.Uint32N(1 << 16)), Data: r.payload()}
	message := icmp.Message{Type: r.kinds().request, Body: echo}
	data, err := message.Marshal(nil) // the kernel adds the checksum of ICMPv6
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := r.write(conn, data); err != nil {
		return 0, fmt.Errorf("echo request to %s: %w", r.Target, err)
	}
	if err := r.await(conn, echo); err != nil {
		return 0, fmt.Errorf("%s: %w", r.Target, err)
	}
	return time.Since(began), nil
}

// payload is what follows the headers of IP and ICMP.
func (r Request) payload() []byte {
	data := []byte("allocnet")
	headers := ipv4.HeaderLen + 8
	if r.Target.Is6() {
		headers = ipv6.HeaderLen + 8
	}
	return append(data, make([]byte, max(0, r.Size-headers-len(data)))...)
}

// unwrapped is the error of the system alone: net's repeats the addresses.
func unwrapped(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

type kinds struct {
	network         string
	protocol        int
	request, answer icmp.Type
}

func (r Request) kinds() kinds {
	if r.Target.Is4() {
		return kinds{"ip4:icmp", 1, ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply}
	}
	return kinds{"ip6:ipv6-icmp", 58, ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply}
}

// listen returns a socket that gets the replies of all interfaces: one that is bound to a device
// would not get a reply that comes another way.
func (r Request) listen(ctx context.Context) (net.PacketConn, error) {
	source := ""
	if r.Source.IsValid() {
		source = r.Source.String()
	}
	config := net.ListenConfig{}
	if r.Size > 0 {
		config.Control = r.forbidFragments
	}
	return config.ListenPacket(ctx, r.kinds().network, source)
}

// forbidFragments has the packets leave whole or not at all, whatever was learned of the way.
func (r Request) forbidFragments(_, _ string, raw syscall.RawConn) (err error) {
	level, option, value := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE
	if r.Target.Is6() {
		level, option, value = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE
	}
	failed := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, value) })
	return errors.Join(failed, err)
}

func (r Request) write(conn net.PacketConn, data []byte) error {
	to := &net.IPAddr{IP: r.Target.AsSlice(), Zone: r.Target.Zone()}
	index, err := r.index()
	switch {
	case err != nil:
	case r.Target.Is4(): // the message's source overrides that of the socket, also if it has none
		_, err = ipv4.NewPacketConn(conn).WriteTo(data, &ipv4.ControlMessage{IfIndex: index, Src: r.Source.AsSlice()}, to)
	default:
		_, err = ipv6.NewPacketConn(conn).WriteTo(data, &ipv6.ControlMessage{IfIndex: index, Src: r.Source.AsSlice()}, to)
	}
	return unwrapped(err)
}

// index is that of the device; 0 without one.
func (r Request) index() (int, error) {
	if r.Device == "" {
		return 0, nil
	}
	link, err := netlink.LinkByName(r.Device)
	if err != nil {
		return 0, fmt.Errorf("interface %s: %w", r.Device, err)
	}
	return link.Attrs().Index, nil
}

// await reads until the reply comes. The socket gets the replies to others, too.
func (r Request) await(conn net.PacketConn, sent *icmp.Echo) error {
	buffer := make([]byte, max(1500, r.Size))
	k := r.kinds()
	for {
		n, from, err := conn.ReadFrom(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return ErrSilent
		}
		if err != nil {
			return unwrapped(err)
		}
		message, err := icmp.ParseMessage(k.protocol, buffer[:n])
		if err != nil || message.Type != k.answer {
			continue
		}
		got, ok := message.Body.(*icmp.Echo)
		peer, isIP := from.(*net.IPAddr)
		if ok && isIP && got.ID == sent.ID && got.Seq == sent.Seq && peer.IP.Equal(r.Target.AsSlice()) {
			return nil
		}
	}
}
