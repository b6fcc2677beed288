// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/insomniacslk/dhcp/rfc1035label"

	"github.com/allocnet/allocnet/internal/acd"
	"github.com/allocnet/allocnet/internal/dhcp"
)

// server6 is a link with a server of DHCPv6, without a time as server.
type server6 struct {
	// answers returns what is sent for a message.
	answers func(m *dhcpv6.Message) []*dhcpv6.Message
	// change changes the packets that are sent; nil: it does not.
	change func(p []byte) []byte
	seen   []*dhcpv6.Message
	queue  [][]byte
}

var ownLinkLocal = netip.MustParseAddr("fe80::1")

func (s *server6) Send(p []byte, hop net.HardwareAddr) error {
	if hop.String() != "33:33:00:01:00:02" || p[7] != 1 || netip.AddrFrom16([16]byte(p[8:24])) != ownLinkLocal || netip.AddrFrom16([16]byte(p[24:40])) != allServers {
		return errors.New("a packet that is not from the client to all servers")
	}
	if sum := acd.ChecksumIPv6(p); sum != 0 {
		return errors.New("a wrong checksum")
	}
	m, err := dhcpv6.MessageFromBytes(p[ipv6Header+udpHeader:])
	if err != nil {
		return err
	}
	s.seen = append(s.seen, m)
	for _, a := range s.answers(m) {
		p := encodeIPv6(a.ToBytes(), netip.MustParseAddr("fe80::9"))
		binary.BigEndian.PutUint16(p[ipv6Header:], serverPortIPv6)
		binary.BigEndian.PutUint16(p[ipv6Header+2:], clientPortIPv6)
		if s.change != nil {
			p = s.change(p)
		}
		s.queue = append(s.queue, p)
	}
	return nil
}

func (s *server6) Receive(time.Time) ([]byte, net.HardwareAddr, error) {
	if len(s.queue) == 0 {
		return nil, nil, os.ErrDeadlineExceeded
	}
	p := s.queue[0]
	s.queue = s.queue[1:]
	return p, others, nil
}

func (s *server6) Close() error { return nil }

// answer6 is what a server without faults gives, but for the changes.
type answer6 struct {
	m  *dhcpv6.Message
	ia *dhcpv6.OptIANA
	a  *dhcpv6.OptIAAddress
}

func reply6(asked *dhcpv6.Message, changes ...func(*answer6)) *dhcpv6.Message {
	m, err := dhcpv6.NewMessage()
	if err != nil {
		panic(err)
	}
	m.MessageType, m.TransactionID = dhcpv6.MessageTypeReply, asked.TransactionID
	if asked.MessageType == dhcpv6.MessageTypeSolicit {
		m.MessageType = dhcpv6.MessageTypeAdvertise
	}
	m.AddOption(dhcpv6.OptClientID(asked.Options.ClientID()))
	m.AddOption(dhcpv6.OptServerID(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: others}))
	r := &answer6{m, &dhcpv6.OptIANA{IaId: asked.Options.OneIANA().IaId}, &dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP("2001:db8::5"), PreferredLifetime: 30 * time.Minute, ValidLifetime: time.Hour}}
	for _, change := range changes {
		change(r)
	}
	if r.a != nil {
		r.ia.Options.Add(r.a)
	}
	if r.ia != nil {
		m.AddOption(r.ia)
	}
	return m
}

func always6(changes ...func(*answer6)) func(*dhcpv6.Message) []*dhcpv6.Message {
	return func(m *dhcpv6.Message) []*dhcpv6.Message { return []*dhcpv6.Message{reply6(m, changes...)} }
}

func clientOf6(s *server6) *ipv6 { return &ipv6{commonOf(s), ownLinkLocal} }

func acquire6(t *testing.T, s *server6) (dhcp.Lease, []dhcp.Lease, error) {
	t.Helper()
	var requested []dhcp.Lease
	l, err := clientOf6(s).Acquire(t.Context(), netip.Addr{}, func(l dhcp.Lease) error {
		requested = append(requested, l)
		return nil
	})
	return l, requested, err
}

const serverID6 = "00030001020000000002"

func with(option dhcpv6.Option) func(*answer6) {
	return func(r *answer6) { r.m.AddOption(option) }
}

// status is what a server says of the association.
func status(code iana.StatusCode) func(*answer6) {
	return func(r *answer6) {
		r.a = nil
		r.ia.Options.Add(&dhcpv6.OptStatusCode{StatusCode: code, StatusMessage: "so it is"})
	}
}

// TestAcquireIPv6: a lease is known before it is requested. Servers know the client by an identifier that is made of its own, and always
// the same.
func TestAcquireIPv6(t *testing.T) {
	s := &server6{answers: always6(with(dhcpv6.OptDNS(net.ParseIP("fe80::9"), net.ParseIP("2001:db8::9"))), with(dhcpv6.OptDomainSearchList(&rfc1035label.Labels{Labels: []string{"a.example.org"}})))}
	l, requested, err := acquire6(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if l.Address.String() != "2001:db8::5/128" || l.Server.String() != "fe80::9" || l.ServerID != serverID6 || l.Gateway.IsValid() || l.Requested || len(l.DNS) != 1 || l.DNS[0].String() != "2001:db8::9" ||
		l.Search[0] != "a.example.org" || time.Duration(l.Lifetime) != time.Hour || time.Duration(l.Renewal) != 15*time.Minute || time.Duration(l.Rebinding) != 24*time.Minute || l.ClientID != "c/lan/net0" || l.Family() != dhcp.IPv6 {
		t.Errorf("%+v", l)
	}
	if len(requested) != 1 || !requested[0].Requested || requested[0].Address != l.Address || requested[0].ServerID != l.ServerID {
		t.Errorf("requested is %+v", requested)
	}
	if len(s.seen) != 2 || s.seen[0].MessageType != dhcpv6.MessageTypeSolicit || s.seen[1].MessageType != dhcpv6.MessageTypeRequest {
		t.Fatalf("%v", s.seen)
	}
	for _, m := range s.seen {
		id, ok := m.Options.ClientID().(*dhcpv6.DUIDUUID)
		if !ok || len(id.ToBytes()) != 18 || m.Options.FQDN().DomainName.Labels[0] != "web" || !m.IsOptionRequested(dhcpv6.OptionDNSRecursiveNameServer) {
			t.Errorf("%s", m)
		}
	}
	if r := s.seen[1]; r.Options.OneIANA().Options.OneAddress().IPv6Addr.String() != "2001:db8::5" || serverOf(r) != serverID6 {
		t.Errorf("%v", r)
	}
	if again, _ := clientOf6(s).identify(); !again.Equal(s.seen[0].Options.ClientID()) {
		t.Errorf("the same client is %s then", again)
	}
	other := &ipv6{client: client{Identity: Identity{ClientID: "d/lan/net0"}}}
	if id, _ := other.identify(); id.Equal(s.seen[0].Options.ClientID()) {
		t.Errorf("another client is %s, too", id)
	}
}

// TestWantedIPv6: an address that the client had is asked for again.
func TestWantedIPv6(t *testing.T) {
	s := &server6{answers: always6()}
	if _, err := clientOf6(s).Acquire(t.Context(), netip.MustParseAddr("2001:db8::5"), func(dhcp.Lease) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if got := s.seen[0].Options.OneIANA().Options.OneAddress(); got == nil || got.IPv6Addr.String() != "2001:db8::5" {
		t.Errorf("%v", s.seen[0])
	}
}

// TestSilenceIPv6: the error says what was asked for, and what was heard.
func TestSilenceIPv6(t *testing.T) {
	s := &server6{answers: func(*dhcpv6.Message) []*dhcpv6.Message { return nil }}
	if _, _, err := acquire6(t, s); err == nil || err.Error() != "no DHCPv6 server offers an address within 10s; nothing was heard" || len(s.seen) != len(discoverPauses) {
		t.Errorf("%d messages, %v", len(s.seen), err)
	}
	s = &server6{answers: always6(status(iana.StatusNoAddrsAvail))}
	if _, _, err := acquire6(t, s); err == nil || err.Error() != `no DHCPv6 server offers an address within 10s; heard: fe80::9: NoAddrsAvail, "so it is"` {
		t.Errorf("got %v", err)
	}
}

// TestWrongAnswersIPv6: no part of an answer that makes no sense is used, and the error says what was wrong with it.
func TestWrongAnswersIPv6(t *testing.T) {
	ip := func(text string) func(*answer6) {
		return func(r *answer6) { r.a.IPv6Addr = net.ParseIP(text) }
	}
	for want, change := range map[string]func(*answer6){
		`the address is "::": want the IPv6 address of a host`:       ip("::"),
		`the address is "::1"`:                                       ip("::1"),
		`the address is "fe80::5"`:                                   ip("fe80::5"),
		`the address is "ff02::5"`:                                   ip("ff02::5"),
		`the address is "10.0.0.5"`:                                  ip("10.0.0.5"),
		`the server identifier has 0 bytes: want 1 to 130`:           func(r *answer6) { r.m.Options.Del(dhcpv6.OptionServerID) },
		`it has no association of addresses (IA_NA)`:                 func(r *answer6) { r.ia = nil; r.a = nil },
		`it has no association of addresses (IA_NA) of this client`:  func(r *answer6) { r.ia.IaId = [4]byte{1} },
		`it has no address`:                                          func(r *answer6) { r.a = nil },
		`the lease is for 9s: want 10s at least`:                     func(r *answer6) { r.a.ValidLifetime, r.a.PreferredLifetime = 9*time.Second, 0 },
		`the preferred lifetime is 2h0m0s, and the valid one 1h0m0s`: func(r *answer6) { r.a.PreferredLifetime = 2 * time.Hour },
		`the name server is "::1"`:                                   with(dhcpv6.OptDNS(net.IPv6loopback)),
		`the search list has "a b"`:                                  with(dhcpv6.OptDomainSearchList(&rfc1035label.Labels{Labels: []string{"a b"}})),
		`UnspecFail, "no"`:                                           with(&dhcpv6.OptStatusCode{StatusCode: iana.StatusUnspecFail, StatusMessage: "no"}),
		`NotOnLink, "line\n"`: func(r *answer6) {
			r.a.Options.Add(&dhcpv6.OptStatusCode{StatusCode: iana.StatusNotOnLink, StatusMessage: "line\n"})
		},
	} {
		if change == nil {
			continue
		}
		_, requested, err := acquire6(t, &server6{answers: always6(change)})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "heard: fe80::9: ") || requested != nil {
			t.Errorf("got %v, want %s; requested is %v", err, want, requested)
		}
	}
}

// TestLongAnswerIPv6: what an error tells of an answer is short, however long that is.
func TestLongAnswerIPv6(t *testing.T) {
	l, _, err := acquire6(t, &server6{answers: always6()})
	if err != nil {
		t.Fatal(err)
	}
	long := func(r *answer6) {
		r.m.UpdateOption(dhcpv6.OptServerID(&dhcpv6.DUIDOpaque{Type: 9, Data: make([]byte, 1200)}))
	}
	if _, err := clientOf6(&server6{answers: always6(long)}).Renew(t.Context(), l); err == nil || len(err.Error()) > 500 || !strings.Contains(err.Error(), "the server identifier is 0009") {
		t.Errorf("got %v", err)
	}
}

// TestTimesIPv6 that contradict each other, or that are left to the client, are those of RFC 8415. The lease is extended after a minute at the
// earliest.
func TestTimesIPv6(t *testing.T) {
	for _, test := range []struct {
		t1, t2, preferred, renewal, rebinding time.Duration
	}{
		{90, 120, 1800, 90, 120}, {40, 20, 1800, 900, 1440}, {0, 0, 1800, 900, 1440}, {20, 7200, 1800, 900, 1440}, {0, 0, 0, 1800, 2880},
		{1, 2, 1800, 60, 1830}, {1, 120, 1800, 60, 120}, {0, 0, 20, 60, 1830}, // the lifetime is an hour
	} {
		l, _, err := acquire6(t, &server6{answers: always6(func(r *answer6) {
			r.ia.T1, r.ia.T2, r.a.PreferredLifetime = test.t1*time.Second, test.t2*time.Second, test.preferred*time.Second
		})})
		if err != nil || time.Duration(l.Renewal) != test.renewal*time.Second || time.Duration(l.Rebinding) != test.rebinding*time.Second {
			t.Errorf("%+v: %s, %s, %v", test, time.Duration(l.Renewal), time.Duration(l.Rebinding), err)
		}
	}
}

// TestOthersAnswersIPv6: packets that are not answers to this request are none.
func TestOthersAnswersIPv6(t *testing.T) {
	for name, change := range map[string]func(*answer6){
		"another client":      func(r *answer6) { r.m.UpdateOption(dhcpv6.OptClientID(&dhcpv6.DUIDUUID{})) },
		"no client":           func(r *answer6) { r.m.Options.Del(dhcpv6.OptionClientID) },
		"another transaction": func(r *answer6) { r.m.TransactionID = dhcpv6.TransactionID{1, 2, 3} },
	} {
		if _, _, err := acquire6(t, &server6{answers: always6(change)}); err == nil || !strings.HasSuffix(err.Error(), "nothing was heard") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBrokenPacketsIPv6: each packet that was cut, at any place, and with any byte replaced, is passed over, or is an error of the answer.
func TestBrokenPacketsIPv6(t *testing.T) {
	answers := always6(with(dhcpv6.OptDNS(net.ParseIP("2001:db8::9"))), with(dhcpv6.OptDomainSearchList(&rfc1035label.Labels{Labels: []string{"a.b"}})))
	length := 0
	_, _, _ = acquire6(t, &server6{answers: answers, change: func(p []byte) []byte { length = len(p); return p }})
	for i := range length {
		for _, change := range []func(p []byte) []byte{
			func(p []byte) []byte { return p[:min(i, len(p))] },
			func(p []byte) []byte { return replaced(p, i, 0) },
			func(p []byte) []byte { return replaced(p, i, 0xff) },
			func(p []byte) []byte { return append(replaced(p, 5, byte(i)), make([]byte, 64)...) }, // a length, and padding
		} {
			_, _, _ = acquire6(t, &server6{answers: answers, change: change})
		}
	}
}

// TestRefusedIPv6: a refusal of the server that was asked ends the request, that of another one, or a failure, does not.
func TestRefusedIPv6(t *testing.T) {
	byOther := func(r *answer6) { r.m.UpdateOption(dhcpv6.OptServerID(&dhcpv6.DUIDUUID{})) }
	l, _, err := acquire6(t, &server6{answers: always6()})
	if err != nil {
		t.Fatal(err)
	}
	ended := func(r *answer6) { r.a.ValidLifetime, r.a.PreferredLifetime = 0, 0 }
	for name, test := range map[string]struct {
		changes []func(*answer6)
		rebinds bool
		refused bool
	}{
		"no binding":             {[]func(*answer6){status(iana.StatusNoBinding)}, false, true},
		"not on the link":        {[]func(*answer6){status(iana.StatusNotOnLink)}, false, true},
		"a failure":              {[]func(*answer6){status(iana.StatusUnspecFail)}, false, false},
		"a lifetime that ended":  {[]func(*answer6){ended}, false, true},
		"of another server":      {[]func(*answer6){status(iana.StatusNoBinding), byOther}, false, false},
		"when any may extend it": {[]func(*answer6){status(iana.StatusNoBinding), byOther}, true, true},
	} {
		c := clientOf6(&server6{answers: always6(test.changes...)})
		extend := c.Renew
		if test.rebinds {
			extend = c.Rebind
		}
		if _, err := extend(t.Context(), l); errors.Is(err, ErrRefused) != test.refused || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestExtendIPv6: a renewal names the server, a rebinding does not. An answer with another address extends nothing.
func TestExtendIPv6(t *testing.T) {
	l, _, err := acquire6(t, &server6{answers: always6()})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []dhcpv6.MessageType{dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRebind} {
		extend := func(s *server6) (dhcp.Lease, error) {
			if want == dhcpv6.MessageTypeRenew {
				return clientOf6(s).Renew(t.Context(), l)
			}
			return clientOf6(s).Rebind(t.Context(), l)
		}
		s := &server6{answers: always6(func(r *answer6) { r.a.ValidLifetime, r.a.PreferredLifetime = time.Minute, time.Minute })}
		extended, err := extend(s)
		if err != nil || extended.Address != l.Address || time.Duration(extended.Lifetime) != time.Minute || extended.Clock < l.Clock {
			t.Errorf("%s: %+v, %v", want, extended, err)
		}
		if m := s.seen[0]; m.MessageType != want || (serverOf(m) != "") != (want == dhcpv6.MessageTypeRenew) || m.Options.OneIANA().Options.OneAddress().IPv6Addr.String() != "2001:db8::5" {
			t.Errorf("%s: %s", want, m)
		}
		other := func(r *answer6) { r.a.IPv6Addr = net.ParseIP("2001:db8::6") }
		if _, err := extend(&server6{answers: always6(other)}); err == nil || !strings.Contains(err.Error(), "it does not have the address 2001:db8::5") {
			t.Errorf("%s: another address: %v", want, err)
		}
	}
	wrong := l
	wrong.ServerID = "x"
	if _, err := clientOf6(&server6{answers: always6()}).Renew(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), `on record is "x"`) {
		t.Errorf("with a damaged record: %v", err)
	}
}

// TestReleaseIPv6 names the server and the address.
func TestReleaseIPv6(t *testing.T) {
	l, _, err := acquire6(t, &server6{answers: always6()})
	if err != nil {
		t.Fatal(err)
	}
	s := &server6{answers: func(*dhcpv6.Message) []*dhcpv6.Message { return nil }}
	if err := clientOf6(s).Release(l); err != nil || len(s.seen) != 1 || s.seen[0].MessageType != dhcpv6.MessageTypeRelease || serverOf(s.seen[0]) != serverID6 ||
		s.seen[0].Options.OneIANA().Options.OneAddress().IPv6Addr.String() != "2001:db8::5" {
		t.Errorf("%v: %v", err, s.seen)
	}
	if !slices.Equal(s.seen[0].Options.ClientID().ToBytes(), func() []byte { id, _ := clientOf6(s).identify(); return id.ToBytes() }()) {
		t.Error("it is of another client")
	}
}

// TestGuardIPv6: the guard is asked for messages of DHCPv6, too.
func TestGuardIPv6(t *testing.T) {
	gone := errors.New("gone")
	s := &server6{answers: func(*dhcpv6.Message) []*dhcpv6.Message { return nil }}
	c := clientOf6(s)
	c.Guard = func(func() error) error { return gone }
	if _, err := c.Acquire(t.Context(), netip.Addr{}, func(dhcp.Lease) error { return nil }); !errors.Is(err, gone) || len(s.seen) > 0 {
		t.Errorf("%v, and %d messages were sent", err, len(s.seen))
	}
}
