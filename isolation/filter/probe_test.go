// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// probePort is where all endpoints listen.
const probePort = 7000

// probes are what endpoints send to one another, each with a name by which it is recognized where it arrives.
type probes struct {
	mu      sync.Mutex
	arrived map[string]bool
}

func (p *probes) arrive(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrived[text] = true
}

func (p *probes) has(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.arrived[text]
}

// endpoint sends probes and receives them, in a namespace.
type endpoint struct {
	*netns.Namespace

	// packets are the sockets from which it sends, by the protocol and the version of IP.
	packets map[string]net.PacketConn
}

// icmpText is before the name of a probe in an echo request.
const icmpText = "probe:"

// listen has an endpoint receive probes in a namespace, until the test ends.
func (p *probes) listen(t *testing.T, n *netns.Namespace) *endpoint {
	t.Helper()
	e := &endpoint{n, map[string]net.PacketConn{}}
	err := n.Do(func() error {
		for _, v := range []string{"4", "6"} {
			host := map[string]string{"4": "0.0.0.0", "6": "::"}[v]
			listener, err := net.Listen("tcp"+v, fmt.Sprintf("[%s]:%d", host, probePort))
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = listener.Close() })
			go p.accept(listener)
			in, failed := net.ListenPacket("udp"+v, fmt.Sprintf("[%s]:%d", host, probePort))
			out, failedToo := net.ListenPacket("udp"+v, fmt.Sprintf("[%s]:0", host))
			echo, err := net.ListenPacket(map[string]string{"4": "ip4:icmp", "6": "ip6:ipv6-icmp"}[v], host)
			if err := errors.Join(err, failed, failedToo); err != nil {
				return err
			}
			e.packets["udp"+v], e.packets["icmp"+v] = out, echo
			for _, socket := range []net.PacketConn{in, out, echo} {
				t.Cleanup(func() { _ = socket.Close() })
				go p.receive(socket)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (p *probes) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				p.arrive(lines.Text())
			}
		}()
	}
}

func (p *probes) receive(socket net.PacketConn) {
	buffer := make([]byte, 2048)
	for {
		n, _, err := socket.ReadFrom(buffer)
		if err != nil {
			return
		}
		text := string(buffer[:n])
		if _, name, isEcho := strings.Cut(text, icmpText); isEcho {
			if kind := buffer[0]; kind == 8 || kind == 128 { // a request
				p.arrive(name)
			}
			continue
		}
		p.arrive(text)
	}
}

// send sends a probe by UDP or ICMP. What the kernel refuses has not arrived.
func (e *endpoint) send(protocol string, number int, to netip.AddrPort, text string) {
	v := "6"
	if to.Addr().Is4() {
		v = "4"
	}
	socket := e.packets[protocol+v]
	if protocol == "udp" {
		_, _ = socket.WriteTo([]byte(text), net.UDPAddrFromAddrPort(to))
		return
	}
	message := append([]byte{map[string]byte{"4": 8, "6": 128}[v], 0, 0, 0, byte(number >> 8), byte(number), 0, 1}, icmpText+text...)
	if v == "4" {
		binary.BigEndian.PutUint16(message[2:], checksum(message))
	}
	_, _ = socket.WriteTo(message, &net.IPAddr{IP: to.Addr().AsSlice()})
}

// checksum is that of RFC 1071.
func checksum(data []byte) uint16 {
	var all uint32
	for i := 0; i+1 < len(data); i += 2 {
		all += uint32(binary.BigEndian.Uint16(data[i:]))
	}
	if len(data)%2 == 1 {
		all += uint32(data[len(data)-1]) << 8
	}
	for all > 0xffff {
		all = all>>16 + all&0xffff
	}
	return ^uint16(all)
}

// connect begins a connection, and writes the name of the probe to it once it is there.
func (e *endpoint) connect(t *testing.T, to netip.AddrPort, text string) (write func(text string)) {
	var mu sync.Mutex
	var open net.Conn
	write = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if open != nil {
			_, _ = open.Write([]byte(text + "\n"))
		}
	}
	go func() {
		_ = e.Do(func() error {
			dialer := net.Dialer{}
			conn, err := dialer.DialContext(t.Context(), "tcp", to.String())
			if err != nil {
				return err
			}
			mu.Lock()
			open = conn
			mu.Unlock()
			write(text)
			return nil
		})
		<-t.Context().Done()
		mu.Lock()
		defer mu.Unlock()
		if open != nil {
			_ = open.Close()
		}
	}()
	return write
}

// require sends probes until all have arrived that have to, and then all once more, followed by as many that have to arrive: none has arrived
// that may not.
func (p *probes) require(t *testing.T, wanted map[string]bool, send func(round string)) {
	t.Helper()
	missing := func(round string) (names []string) {
		for name, isWanted := range wanted {
			if isWanted && !p.has(name+round) {
				names = append(names, name)
			}
		}
		return names
	}
	for i := range 3 { // what is sent first waits for neighbours
		round := fmt.Sprintf(" %d", i)
		sandbox.Eventually(t, "probes arrive", func() bool {
			if len(missing(round)) > 0 {
				send(round)
			}
			return len(missing(round)) == 0
		}, func() string { return strings.Join(missing(round), "\n") })
	}
	for name, isWanted := range wanted {
		for i := range 3 {
			if !isWanted && p.has(fmt.Sprintf("%s %d", name, i)) {
				t.Errorf("%s has arrived", name)
				break
			}
		}
	}
}
