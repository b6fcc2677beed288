// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/allocnet/allocnet/internal/dhcp"
)

// server is a link with a DHCP server. It has no time: without an answer each deadline is over at once.
type server struct {
	// answers returns what is sent for a message.
	answers func(m *dhcpv4.DHCPv4) []*dhcpv4.DHCPv4
	// change changes the packets that are sent; nil: it does not.
	change func(p []byte) []byte
	seen   []*dhcpv4.DHCPv4
	to     []netip.Addr
	queue  [][]byte
}

var (
	own    = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	others = net.HardwareAddr{2, 0, 0, 0, 0, 2}
)

func (s *server) Send(p []byte, hop net.HardwareAddr) error {
	m, err := dhcpv4.FromBytes(p[ipHeader+udpHeader:])
	if err != nil {
		return err
	}
	s.seen, s.to = append(s.seen, m), append(s.to, netip.AddrFrom4([4]byte(p[16:20])))
	for _, a := range s.answers(m) {
		p := answerPacket(a.ToBytes())
		if s.change != nil {
			p = s.change(p)
		}
		s.queue = append(s.queue, p)
	}
	return nil
}

// answerPacket is that of a server.
func answerPacket(message []byte) []byte {
	p := encode(message, netip.MustParseAddr("10.0.0.1"), everyone.to)
	p[ipHeader+1], p[ipHeader+3] = serverPort, clientPort
	return p
}

func (s *server) Receive(time.Time) ([]byte, net.HardwareAddr, error) {
	if len(s.queue) == 0 {
		return nil, nil, os.ErrDeadlineExceeded
	}
	p := s.queue[0]
	s.queue = s.queue[1:]
	return p, others, nil
}

func (s *server) Close() error { return nil }

// reply is what a server without faults answers.
func reply(m *dhcpv4.DHCPv4, changes ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t := dhcpv4.MessageTypeAck
	if m.MessageType() == dhcpv4.MessageTypeDiscover {
		t = dhcpv4.MessageTypeOffer
	}
	r, err := dhcpv4.New(append([]dhcpv4.Modifier{
		dhcpv4.WithReply(m), dhcpv4.WithMessageType(t), dhcpv4.WithYourIP(net.IPv4(10, 0, 0, 5)), dhcpv4.WithNetmask(net.CIDRMask(24, 32)),
		dhcpv4.WithLeaseTime(3600), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(10, 0, 0, 1))), dhcpv4.WithOption(dhcpv4.OptRouter(net.IPv4(10, 0, 0, 1))),
	}, changes...)...)
	if err != nil {
		panic(err)
	}
	return r
}

func always(changes ...dhcpv4.Modifier) func(*dhcpv4.DHCPv4) []*dhcpv4.DHCPv4 {
	return func(m *dhcpv4.DHCPv4) []*dhcpv4.DHCPv4 { return []*dhcpv4.DHCPv4{reply(m, changes...)} }
}

func clientOf(s *server) *ipv4 { return &ipv4{commonOf(s), own} }

// commonOf has a link on which no other interface has an address.
func commonOf(l link) client {
	free := func(context.Context, netip.Addr, time.Duration) (bool, error) { return false, nil }
	return client{Identity{ClientID: "c/lan/net0", HostName: "web"}, l, free}
}

func acquire(t *testing.T, s *server) (dhcp.Lease, []dhcp.Lease, error) {
	t.Helper()
	var requested []dhcp.Lease
	l, err := clientOf(s).Acquire(t.Context(), netip.Addr{}, func(l dhcp.Lease) error {
		requested = append(requested, l)
		return nil
	})
	return l, requested, err
}

// TestAcquire: a lease is known before it is requested, and has then what the server gives. The server knows the client by its
// identifier and its name.
func TestAcquire(t *testing.T) {
	s := &server{answers: always(dhcpv4.WithOption(dhcpv4.OptDNS(net.IPv4(10, 0, 0, 2))), dhcpv4.WithOption(dhcpv4.OptDomainName("example.org\x00")), dhcpv4.WithDomainSearchList("a.example.org"))}
	l, requested, err := acquire(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if l.Address.String() != "10.0.0.5/24" || l.Gateway.String() != "10.0.0.1" || l.Server.String() != "10.0.0.1" || l.Hop != others.String() || l.Requested ||
		l.DNS[0].String() != "10.0.0.2" || l.Domain != "example.org" || l.Search[0] != "a.example.org" || time.Duration(l.Lifetime) != time.Hour || time.Duration(l.Renewal) != 30*time.Minute || l.ClientID != "c/lan/net0" {
		t.Errorf("%+v", l)
	}
	if len(requested) != 1 || !requested[0].Requested || requested[0].Address != l.Address || requested[0].Server != l.Server {
		t.Errorf("requested is %+v", requested)
	}
	if len(s.seen) != 2 {
		t.Fatalf("%d messages", len(s.seen))
	}
	for _, m := range s.seen {
		if id := m.Options.Get(dhcpv4.OptionClientIdentifier); string(id) != "\x00c/lan/net0" || m.HostName() != "web" {
			t.Errorf("%q, %q", id, m.HostName())
		}
	}
	if r := s.seen[1]; r.RequestedIPAddress().String() != "10.0.0.5" || r.ServerIdentifier().String() != "10.0.0.1" {
		t.Errorf("%v", r)
	}
}

// TestNotRequestedUnrecorded: what cannot be recorded is not requested.
func TestNotRequestedUnrecorded(t *testing.T) {
	s, full := &server{answers: always()}, errors.New("no space left on device")
	if _, err := clientOf(s).Acquire(t.Context(), netip.Addr{}, func(dhcp.Lease) error { return full }); !errors.Is(err, full) || len(s.seen) != 1 {
		t.Errorf("%v after %d messages", err, len(s.seen))
	}
}

// TestSilence: the error says what was heard, and how long was waited.
func TestSilence(t *testing.T) {
	s := &server{answers: func(*dhcpv4.DHCPv4) []*dhcpv4.DHCPv4 { return nil }}
	_, _, err := acquire(t, s)
	if want := "no DHCP server offers an address within 10s; nothing was heard"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if len(s.seen) != len(discoverPauses) {
		t.Errorf("%d messages", len(s.seen))
	}
	sum := time.Duration(0)
	for _, p := range discoverPauses {
		sum += p
	}
	if sum != Timeout {
		t.Errorf("the pauses are %s, want %s", sum, Timeout)
	}
}

// TestSilentAfterOffer: a server that does not give what it has offered is named.
func TestSilentAfterOffer(t *testing.T) {
	s := &server{answers: func(m *dhcpv4.DHCPv4) []*dhcpv4.DHCPv4 {
		if m.MessageType() == dhcpv4.MessageTypeDiscover {
			return always()(m)
		}
		return nil
	}}
	if _, _, err := acquire(t, s); err == nil || !strings.Contains(err.Error(), "no DHCP server gives the address 10.0.0.5/24 that 10.0.0.1 has offered; nothing was heard") {
		t.Errorf("got %v", err)
	}
}

// TestEnded: a caller that gives up is told why.
func TestEnded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gaveUp := errors.New("the caller gave up")
	cancel(gaveUp)
	if _, err := clientOf(&server{answers: always()}).Acquire(ctx, netip.Addr{}, nil); !errors.Is(err, gaveUp) {
		t.Errorf("got %v", err)
	}
}

// TestWrongAnswers: no part of an answer that makes no sense is used, and the error says what was wrong with it.
func TestWrongAnswers(t *testing.T) {
	generic := func(code uint8, data ...byte) dhcpv4.Modifier {
		return dhcpv4.WithGeneric(dhcpv4.GenericOptionCode(code), data)
	}
	without := func(code uint8) dhcpv4.Modifier { return dhcpv4.WithoutOption(dhcpv4.GenericOptionCode(code)) }
	ip := func(a, b, c, d byte) dhcpv4.Modifier { return dhcpv4.WithYourIP(net.IPv4(a, b, c, d)) }
	for want, change := range map[string]dhcpv4.Modifier{
		`the address is "0.0.0.0"`:                          ip(0, 0, 0, 0),
		`the address is "0.1.2.3"`:                          ip(0, 1, 2, 3),
		`the address is "127.0.0.1"`:                        ip(127, 0, 0, 1),
		`the address is "169.254.1.1"`:                      ip(169, 254, 1, 1),
		`the address is "224.0.0.5"`:                        ip(224, 0, 0, 5),
		`the address is "255.255.255.255"`:                  ip(255, 255, 255, 255),
		`the address 10.0.0.0/24 is that of its network`:    ip(10, 0, 0, 0),
		`the address 10.0.0.255/24 is that of its network`:  ip(10, 0, 0, 255),
		`the router is 10.0.0.1: want another address`:      ip(10, 0, 0, 1),
		`the router is 10.0.0.1: want another address of 1`: ip(192, 168, 0, 5),
		`the subnet mask of 10.0.0.5 is "<nil>"`:            without(1),
		`the subnet mask of 10.0.0.5 is "255.0.255.0"`:      generic(1, 255, 0, 255, 0),
		`the subnet mask of 10.0.0.5 is "254.0.0.0"`:        generic(1, 254, 0, 0, 0),
		`the server identifier is "<nil>"`:                  without(54),
		`the server identifier is "127.0.0.1"`:              generic(54, 127, 0, 0, 1),
		`the router is "224.0.0.1"`:                         generic(3, 224, 0, 0, 1),
		`the name server is "127.0.0.1"`:                    generic(6, 127, 0, 0, 1),
		`the domain name is "a\nnameserver 6.6.6.6"`:        generic(15, []byte("a\nnameserver 6.6.6.6")...),
		`the search list has "a b"`:                         generic(119, 3, 'a', ' ', 'b', 0),
		`the search list has 2 bytes`:                       generic(119, 0xc0, 0),
		`the classless routes are 0 in 3 bytes`:             generic(121, 33, 1, 1),
		`the router of 192.168.0.0/16 is 10.9.0.1`:          generic(121, 16, 192, 168, 10, 9, 0, 1),
		`a classless route leads to 127.0.0.0/8`:            generic(121, 8, 127, 10, 0, 0, 1),
		`a classless route leads to 0.0.0.0/0`:              generic(121, 0, 0, 0, 0, 0),
		`the lease has no time`:                             without(51),
		`the lease is for 9s`:                               generic(51, 0, 0, 0, 9),
	} {
		_, requested, err := acquire(t, &server{answers: always(change)})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "heard: 10.0.0.1: ") || requested != nil {
			t.Errorf("got %v, want %s; requested is %v", err, want, requested)
		}
	}
}

// TestRoutes: classless routes replace the router, and those without one are on the link.
func TestRoutes(t *testing.T) {
	l, _, err := acquire(t, &server{answers: always(dhcpv4.WithGeneric(dhcpv4.OptionClasslessStaticRoute, []byte{0, 10, 0, 0, 2, 16, 192, 168, 10, 0, 0, 3, 24, 192, 0, 2, 0, 0, 0, 0}))})
	want := []dhcp.Route{{To: netip.MustParsePrefix("192.168.0.0/16"), Via: netip.MustParseAddr("10.0.0.3")}, {To: netip.MustParsePrefix("192.0.2.0/24")}}
	if err != nil || l.Gateway.String() != "10.0.0.2" || !slices.Equal(l.Routes, want) {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestTimes that contradict each other are those of RFC 2131. The lease is extended after a minute or half of its time at the earliest.
func TestTimes(t *testing.T) {
	seconds := func(code, s byte) dhcpv4.Modifier {
		return dhcpv4.WithGeneric(dhcpv4.GenericOptionCode(code), []byte{0, 0, 0, s})
	}
	for _, test := range []struct {
		changes            []dhcpv4.Modifier
		renewal, rebinding time.Duration
	}{
		{nil, 30 * time.Minute, 52*time.Minute + 30*time.Second},
		{[]dhcpv4.Modifier{seconds(58, 90), seconds(59, 120)}, 90 * time.Second, 120 * time.Second},
		{[]dhcpv4.Modifier{seconds(58, 1), seconds(59, 120)}, time.Minute, 120 * time.Second},
		{[]dhcpv4.Modifier{seconds(58, 1), seconds(59, 2)}, time.Minute, 52*time.Minute + 30*time.Second},
		{[]dhcpv4.Modifier{dhcpv4.WithLeaseTime(30), seconds(58, 1), seconds(59, 20)}, 15 * time.Second, 20 * time.Second},
		{[]dhcpv4.Modifier{seconds(58, 40), seconds(59, 20)}, 30 * time.Minute, 52*time.Minute + 30*time.Second},
		{[]dhcpv4.Modifier{seconds(58, 0)}, 30 * time.Minute, 52*time.Minute + 30*time.Second},
		{[]dhcpv4.Modifier{dhcpv4.WithLeaseTime(30), seconds(59, 30)}, 15 * time.Second, 26*time.Second + 250*time.Millisecond},
	} {
		l, _, err := acquire(t, &server{answers: always(test.changes...)})
		if err != nil || time.Duration(l.Renewal) != test.renewal || time.Duration(l.Rebinding) != test.rebinding {
			t.Errorf("%s, %s, %v; want %s, %s", time.Duration(l.Renewal), time.Duration(l.Rebinding), err, test.renewal, test.rebinding)
		}
	}
}

// TestOthersAnswers: packets that are not answers to this request are none.
func TestOthersAnswers(t *testing.T) {
	for name, change := range map[string]dhcpv4.Modifier{
		"another client":      dhcpv4.WithHwAddr(others),
		"another transaction": dhcpv4.WithTransactionID(dhcpv4.TransactionID{1, 2, 3, 4}),
		"a request":           func(m *dhcpv4.DHCPv4) { m.OpCode = dhcpv4.OpcodeBootRequest },
	} {
		if _, _, err := acquire(t, &server{answers: always(change)}); err == nil || !strings.HasSuffix(err.Error(), "nothing was heard") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBrokenPackets: each packet that was cut, at any place, and with any byte replaced, is passed over, or is an error of the answer.
func TestBrokenPackets(t *testing.T) {
	whole := answerPacket(reply(&dhcpv4.DHCPv4{}, dhcpv4.WithDomainSearchList("a.b"), dhcpv4.WithGeneric(dhcpv4.OptionClasslessStaticRoute, []byte{16, 192, 168, 10, 0, 0, 3})).ToBytes())
	for i := range whole {
		for _, change := range []func(p []byte) []byte{
			func(p []byte) []byte { return p[:min(i, len(p))] },
			func(p []byte) []byte { return replaced(p, i, 0) },
			func(p []byte) []byte { return replaced(p, i, 0xff) },
			func(p []byte) []byte { return append(replaced(p, 3, byte(i)), make([]byte, 64)...) }, // a length, and padding
		} {
			_, _, _ = acquire(t, &server{answers: always(dhcpv4.WithDomainSearchList("a.b"), dhcpv4.WithGeneric(dhcpv4.OptionClasslessStaticRoute, []byte{16, 192, 168, 10, 0, 0, 3})), change: change})
		}
	}
}

func replaced(p []byte, i int, b byte) []byte {
	if p = slices.Clone(p); i < len(p) {
		p[i] = b
	}
	return p
}

// TestRefused: a refusal of the server that was asked ends the request, that of another one does not.
func TestRefused(t *testing.T) {
	nak := dhcpv4.WithMessageType(dhcpv4.MessageTypeNak)
	byOther := dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(10, 0, 0, 9)))
	s := &server{answers: func(m *dhcpv4.DHCPv4) []*dhcpv4.DHCPv4 {
		if m.MessageType() == dhcpv4.MessageTypeDiscover {
			return always()(m)
		}
		return []*dhcpv4.DHCPv4{reply(m, nak, byOther), reply(m, nak)}
	}}
	if _, _, err := acquire(t, s); !errors.Is(err, ErrRefused) {
		t.Errorf("got %v", err)
	}
	l, _, err := acquire(t, &server{answers: always()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clientOf(&server{answers: always(nak)}).Renew(t.Context(), l); !errors.Is(err, ErrRefused) {
		t.Errorf("renew: %v", err)
	}
	if _, err := clientOf(&server{answers: always(nak, byOther)}).Renew(t.Context(), l); errors.Is(err, ErrRefused) || err == nil {
		t.Errorf("renew, refused by another server: %v", err)
	}
	if _, err := clientOf(&server{answers: always(nak, byOther)}).Rebind(t.Context(), l); !errors.Is(err, ErrRefused) {
		t.Errorf("rebind: %v", err)
	}
}

// TestExtend: a renewal goes to the server alone, a rebinding to all, and what an answer leaves out stays. An answer with another
// address extends nothing.
func TestExtend(t *testing.T) {
	l, _, err := acquire(t, &server{answers: always(dhcpv4.WithOption(dhcpv4.OptDNS(net.IPv4(10, 0, 0, 2))))})
	if err != nil {
		t.Fatal(err)
	}
	short := []dhcpv4.Modifier{
		dhcpv4.WithoutOption(dhcpv4.OptionSubnetMask), dhcpv4.WithoutOption(dhcpv4.OptionRouter), dhcpv4.WithoutOption(dhcpv4.OptionDomainNameServer), dhcpv4.WithLeaseTime(60),
	}
	for to, extend := range map[string]func(*ipv4) (dhcp.Lease, error){
		"10.0.0.1":        func(c *ipv4) (dhcp.Lease, error) { return c.Renew(t.Context(), l) },
		"255.255.255.255": func(c *ipv4) (dhcp.Lease, error) { return c.Rebind(t.Context(), l) },
	} {
		s := &server{answers: always(short...)}
		extended, err := extend(clientOf(s))
		if err != nil || extended.Address != l.Address || extended.Gateway != l.Gateway || extended.DNS[0] != l.DNS[0] || time.Duration(extended.Lifetime) != time.Minute || extended.Clock < l.Clock {
			t.Errorf("to %s: %+v, %v", to, extended, err)
		}
		if m := s.seen[0]; s.to[0].String() != to || m.ClientIPAddr.String() != "10.0.0.5" || m.RequestedIPAddress() != nil || m.ServerIdentifier() != nil {
			t.Errorf("to %s: %s", s.to[0], m)
		}
		if _, err := extend(clientOf(&server{answers: always(dhcpv4.WithYourIP(net.IPv4(10, 0, 0, 6)))})); err == nil || !strings.Contains(err.Error(), "the address is 10.0.0.6, want 10.0.0.5") {
			t.Errorf("to %s: another address: %v", to, err)
		}
	}
}

// TestRelease goes to the server, with the address and the identifier of the client.
func TestRelease(t *testing.T) {
	l, _, err := acquire(t, &server{answers: always()})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{answers: func(*dhcpv4.DHCPv4) []*dhcpv4.DHCPv4 { return nil }}
	if err := clientOf(s).Release(l); err != nil || len(s.seen) != 1 || s.to[0] != l.Server || s.seen[0].MessageType() != dhcpv4.MessageTypeRelease ||
		s.seen[0].ClientIPAddr.String() != "10.0.0.5" || s.seen[0].ServerIdentifier().String() != "10.0.0.1" || s.seen[0].Options.Get(dhcpv4.OptionClientIdentifier) == nil {
		t.Errorf("%v: %v", err, s.seen)
	}
}

// TestGuard: messages that ask for something are sent by the guard, also those that are sent again, and a refusal of it ends the exchange.
func TestGuard(t *testing.T) {
	gone := errors.New("gone")
	lease := dhcp.Lease{Server: netip.MustParseAddr("10.0.0.1"), Address: netip.MustParsePrefix("10.0.0.5/24")}
	for permitted := range 3 {
		s := &server{answers: func(*dhcpv4.DHCPv4) []*dhcpv4.DHCPv4 { return nil }}
		c := clientOf(s)
		asked := 0
		c.Guard = func(send func() error) error {
			if asked++; asked > permitted {
				return gone
			}
			return send()
		}
		if _, err := c.Renew(t.Context(), lease); !errors.Is(err, gone) || len(s.seen) != permitted {
			t.Errorf("%d messages are permitted: %v, and %d were sent", permitted, err, len(s.seen))
		}
		if err := c.Release(lease); err != nil || len(s.seen) != permitted+1 {
			t.Errorf("the release: %v", err)
		}
	}
}
