// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package client asks DHCP servers for leases, extends and releases them. Servers are not trusted: what they send is read in the
// goroutine of the caller, so that no packet ends the process, and what makes no sense is not used.
package client

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/dhcp"
)

// Timeout is how long a lease is asked for.
const Timeout = 10 * time.Second

// Pauses before a message is sent again, and after the last time.
var (
	discoverPauses = []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second, 2500 * time.Millisecond}
	requestPauses  = []time.Duration{time.Second, 2 * time.Second, 2 * time.Second}
)

// Identity is what servers get to know of a client.
type Identity struct {
	ClientID, HostName string
	// Shared is whether another interface may be the same client, such as that of an earlier allocation of the job.
	Shared bool
	// Guard sends a message that has a server give or extend a lease, or returns why it is not to be sent any more. Nil: all are sent.
	Guard func(send func() error) error
}

// Servers are those of one family, asked by an interface.
type Servers interface {
	// Acquire asks for a lease, of an address if one is wanted, which no other interface of the link has (InUseError). record is called
	// before a server may give it, and when it is lost because it is refused.
	Acquire(ctx context.Context, wanted netip.Addr, record func(dhcp.Lease) error) (dhcp.Lease, error)
	// Renew has the server of a lease extend it.
	Renew(ctx context.Context, l dhcp.Lease) (dhcp.Lease, error)
	// Rebind has any server extend it.
	Rebind(ctx context.Context, l dhcp.Lease) (dhcp.Lease, error)
	// Release gives an address back, which the interface must not have any more. No answer is awaited.
	Release(l dhcp.Lease) error
	// Close closes the interface.
	Close()
}

// Open opens an interface, which has to be up. inside runs a function in its namespace, also later.
func Open(ctx context.Context, inside func(do func() error) error, name string, f dhcp.Family, of Identity) (s Servers, err error) {
	err = inside(func() error {
		iface, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("interface %s: %w", name, err)
		}
		c := client{Identity: of, contested: askingBy(name, inside)}
		if f == dhcp.IPv6 {
			s, err = openIPv6(ctx, iface, c)
		} else {
			s, err = openIPv4(iface, c)
		}
		return err
	})
	if err == nil && s == nil {
		err = fmt.Errorf("interface %s: its namespace does not exist", name)
	}
	return s, err
}

// client is what those of both families have.
type client struct {
	Identity

	link      link
	contested asking
}

func (c *client) Close() { _ = c.link.Close() } // nothing to lose

// ofClient completes a lease with what the answer, which came from a link-layer address, does not tell.
func (c *client) ofClient(l dhcp.Lease, hop net.HardwareAddr) dhcp.Lease {
	l.ClientID, l.HostName = c.ClientID, c.HostName
	l.Hop, l.Clock, l.Acquired = hop.String(), dhcp.Span(dhcp.Now()), time.Now().UTC().Truncate(time.Second)
	return l
}

// ipv4 are servers of DHCPv4.
type ipv4 struct {
	client

	mac net.HardwareAddr
}

func openIPv4(iface *net.Interface, c client) (Servers, error) {
	s, err := openSocket(iface, unix.ETH_P_IP, answers)
	if err != nil {
		return nil, err
	}
	c.link = s
	return &ipv4{c, iface.HardwareAddr}, nil
}

func (c *ipv4) Acquire(ctx context.Context, wanted netip.Addr, record func(dhcp.Lease) error) (dhcp.Lease, error) {
	offer, err := c.discover(ctx, wanted)
	if err != nil {
		return dhcp.Lease{}, err
	}
	offer.Requested = true
	if err := record(offer); err != nil {
		return dhcp.Lease{}, err
	}
	return c.secure(ctx, offer, c.request, record, c.decline)
}

// request asks the server for what it has offered.
func (c *ipv4) request(ctx context.Context, offer dhcp.Lease) (l dhcp.Lease, err error) {
	m, err := c.message(dhcpv4.MessageTypeRequest, about(offer)...)
	if err != nil {
		return l, err
	}
	err = c.exchange(ctx, request{pauses: requestPauses, asked: fmt.Sprintf("gives the address %s that %s has offered", offer.Address, offer.Server)}, m, everyone,
		func(a answer) error { return c.given(a, offer, true, &l) })
	return l, err
}

// about are the options of a message about an address that a server gives, and the client has not.
func about(l dhcp.Lease) []dhcpv4.Option {
	return []dhcpv4.Option{dhcpv4.OptRequestedIPAddress(l.Address.Addr().AsSlice()), dhcpv4.OptServerIdentifier(l.Server.AsSlice())}
}

// decline tells the server that another host has the address of a lease. No answer is awaited.
func (c *ipv4) decline(l dhcp.Lease) error {
	m, err := c.message(dhcpv4.MessageTypeDecline, about(l)...)
	if err != nil {
		return err
	}
	return c.link.Send(encode(m.ToBytes(), everyone.from, everyone.to), everyone.hop)
}

func (c *ipv4) discover(ctx context.Context, wanted netip.Addr) (offer dhcp.Lease, err error) {
	var options []dhcpv4.Option
	if wanted.IsValid() {
		options = append(options, dhcpv4.OptRequestedIPAddress(wanted.AsSlice()))
	}
	m, err := c.message(dhcpv4.MessageTypeDiscover, options...)
	if err != nil {
		return offer, err
	}
	err = c.exchange(ctx, request{pauses: discoverPauses, asked: fmt.Sprintf("offers an address within %s", Timeout)}, m, everyone, func(a answer) error {
		if t := a.MessageType(); t != dhcpv4.MessageTypeOffer {
			return fmt.Errorf("%s", t)
		}
		l, err := leaseOf(a.DHCPv4)
		if err != nil {
			return err
		}
		offer = c.ofClient(l, a.hop)
		return nil
	})
	return offer, err
}

// given takes the answer to a request: the lease, or that it is refused. The answers of other servers are not meant.
func (c *ipv4) given(a answer, asked dhcp.Lease, sameServer bool, l *dhcp.Lease) error {
	server, ok := netip.AddrFromSlice(a.ServerIdentifier().To4())
	if sameServer && (!ok || server != asked.Server) {
		return fmt.Errorf("the server identifier is %s, want %s", server, asked.Server)
	}
	switch t := a.MessageType(); t {
	case dhcpv4.MessageTypeNak:
		return &final{fmt.Errorf("%w (DHCPNAK)", ErrRefused)}
	case dhcpv4.MessageTypeAck:
	default:
		return fmt.Errorf("%s", t)
	}
	given, err := leaseOf(complete(a.DHCPv4, asked))
	if err == nil && given.Address.Addr() != asked.Address.Addr() {
		err = fmt.Errorf("the address is %s, want %s", given.Address.Addr(), asked.Address.Addr())
	}
	if err != nil {
		return err
	}
	*l = c.ofClient(given, a.hop)
	return nil
}

// complete gives an answer what a server has left out of it that was in the offer, as some do.
func complete(m *dhcpv4.DHCPv4, offer dhcp.Lease) *dhcpv4.DHCPv4 {
	if m.SubnetMask() == nil {
		m.UpdateOption(dhcpv4.OptSubnetMask(net.CIDRMask(offer.Address.Bits(), 32)))
	}
	if offer.Gateway.IsValid() && m.Options.Get(dhcpv4.OptionRouter) == nil && m.Options.Get(dhcpv4.OptionClasslessStaticRoute) == nil {
		m.UpdateOption(dhcpv4.OptRouter(offer.Gateway.AsSlice()))
	}
	if m.Options.Get(dhcpv4.OptionDomainNameServer) == nil && len(offer.DNS) > 0 {
		var servers []net.IP
		for _, a := range offer.DNS {
			servers = append(servers, a.AsSlice())
		}
		m.UpdateOption(dhcpv4.OptDNS(servers...))
	}
	return m
}

func (c *ipv4) Renew(ctx context.Context, l dhcp.Lease) (dhcp.Lease, error) {
	to := destination{from: l.Address.Addr(), to: l.Server, hop: hopOf(l)}
	return c.extend(ctx, l, to, fmt.Sprintf("%s extends the lease of %s", l.Server, l.Address.Addr()))
}

func (c *ipv4) Rebind(ctx context.Context, l dhcp.Lease) (dhcp.Lease, error) {
	return c.extend(ctx, l, destination{from: l.Address.Addr(), to: everyone.to, hop: broadcast}, fmt.Sprintf("extends the lease of %s", l.Address.Addr()))
}

func (c *ipv4) extend(ctx context.Context, l dhcp.Lease, to destination, asked string) (extended dhcp.Lease, err error) {
	m, err := c.message(dhcpv4.MessageTypeRequest)
	if err != nil {
		return extended, err
	}
	m.ClientIPAddr = l.Address.Addr().AsSlice()
	err = c.exchange(ctx, request{pauses: requestPauses, asked: asked}, m, to, func(a answer) error {
		return c.given(a, l, to.to == l.Server, &extended)
	})
	return extended, err
}

func (c *ipv4) Release(l dhcp.Lease) error {
	m, err := c.message(dhcpv4.MessageTypeRelease, dhcpv4.OptServerIdentifier(l.Server.AsSlice()))
	if err != nil {
		return err
	}
	m.ClientIPAddr = l.Address.Addr().AsSlice()
	return c.link.Send(encode(m.ToBytes(), l.Address.Addr(), l.Server), hopOf(l))
}

// hopOf is the link-layer address by which the server of a lease is reached.
func hopOf(l dhcp.Lease) net.HardwareAddr {
	hop, err := net.ParseMAC(l.Hop)
	if err != nil {
		return broadcast
	}
	return hop
}

// wantedOptions are what a server is asked for.
var wantedOptions = []dhcpv4.OptionCode{
	dhcpv4.OptionSubnetMask, dhcpv4.OptionClasslessStaticRoute, dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer,
	dhcpv4.OptionDomainName, dhcpv4.OptionDNSDomainSearchList, dhcpv4.OptionRenewTimeValue, dhcpv4.OptionRebindingTimeValue,
}

func (c *ipv4) message(t dhcpv4.MessageType, options ...dhcpv4.Option) (*dhcpv4.DHCPv4, error) {
	// As the reference plugin has it, so that servers know its clients again: a type of 0, and the text.
	id := dhcpv4.OptClientIdentifier(append([]byte{0}, c.ClientID...))
	modifiers := []dhcpv4.Modifier{dhcpv4.WithHwAddr(c.mac), dhcpv4.WithMessageType(t), dhcpv4.WithOption(id)}
	if t != dhcpv4.MessageTypeRelease && t != dhcpv4.MessageTypeDecline {
		modifiers = append(modifiers, dhcpv4.WithRequestedOptions(wantedOptions...), dhcpv4.WithOption(dhcpv4.OptMaxMessageSize(maxMessage)))
		if c.HostName != "" {
			modifiers = append(modifiers, dhcpv4.WithOption(dhcpv4.OptHostName(c.HostName)))
		}
	}
	for _, o := range options {
		modifiers = append(modifiers, dhcpv4.WithOption(o))
	}
	return dhcpv4.New(modifiers...)
}

// maxMessage is the longest answer that is asked for: a packet of Ethernet.
const maxMessage = 1472

// answer is a message of a server to this client, and the link-layer address that it came from.
type answer struct {
	*dhcpv4.DHCPv4
	hop net.HardwareAddr
}

// destination is where a message goes, and the address that it is from.
type destination struct {
	from, to netip.Addr
	hop      net.HardwareAddr
}

// everyone are all servers, asked by a client without an address.
var everyone = destination{netip.AddrFrom4([4]byte{}), netip.AddrFrom4([4]byte{255, 255, 255, 255}), broadcast}

// exchange sends a message until accept takes an answer.
func (c *ipv4) exchange(ctx context.Context, r request, m *dhcpv4.DHCPv4, to destination, accept func(answer) error) error {
	r.protocol, r.hop, r.decode, r.guard = "DHCP", to.hop, decode, c.Guard
	r.packet = func(elapsed time.Duration) []byte {
		m.NumSeconds = uint16(elapsed.Seconds())
		return encode(m.ToBytes(), to.from, to.to)
	}
	r.take = func(message []byte, _ netip.Addr, hop net.HardwareAddr) (bool, error) {
		a, err := dhcpv4.FromBytes(message)
		if err != nil {
			return false, fmt.Errorf("a message that cannot be read: %w", err)
		}
		if a.OpCode != dhcpv4.OpcodeBootReply || a.TransactionID != m.TransactionID || !slices.Equal(a.ClientHWAddr, c.mac) {
			return false, nil
		}
		err = accept(answer{a, hop})
		return err == nil, err
	}
	return exchange(ctx, c.link, r)
}
