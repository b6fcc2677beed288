// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/insomniacslk/dhcp/rfc1035label"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/dhcp"
)

// ipv6 are servers of DHCPv6, which are asked by multicast, also those that have given a lease. None is asked to confirm an address
// (Confirm): the interface of an attachment stays on its link, also while no process extends its leases.
type ipv6 struct {
	client

	// own is the address that messages are from. Servers answer to it.
	own netip.Addr
}

// openIPv6 waits until the interface has an address that messages can be from.
func openIPv6(ctx context.Context, iface *net.Interface, c client) (Servers, error) {
	own, err := awaitLinkLocal(ctx, iface)
	if err != nil {
		return nil, err
	}
	s, err := openSocket(iface, unix.ETH_P_IPV6, answersIPv6)
	if err != nil {
		return nil, err
	}
	c.link = s
	return &ipv6{c, own}, nil
}

// linkLocalEvery is the time between two looks at the addresses of an interface. The kernel asks the link for a second or two whether
// another interface has the address.
const linkLocalEvery = 50 * time.Millisecond

func awaitLinkLocal(ctx context.Context, iface *net.Interface) (netip.Addr, error) {
	for {
		own, err := linkLocalOf(iface)
		if err != nil || own.IsValid() {
			return own, err
		}
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
				return own, cause
			}
			return own, fmt.Errorf("interface %s has no link-local IPv6 address, which servers of DHCPv6 answer to: want IPv6 on it (disable_ipv6 0, addr_gen_mode 0), and no other interface of the link with its MAC", iface.Name)
		case <-time.After(linkLocalEvery):
		}
	}
}

// linkLocalOf returns the link-local address of an interface that the kernel answers for; zero: it has none yet.
func linkLocalOf(iface *net.Interface) (own netip.Addr, err error) {
	link, err := netlink.LinkByIndex(iface.Index)
	if err != nil {
		return own, fmt.Errorf("interface %s: %w", iface.Name, err)
	}
	addresses, err := netlink.AddrList(link, netlink.FAMILY_V6)
	for _, a := range addresses {
		if address, ok := netip.AddrFromSlice(a.IP); ok && address.IsLinkLocalUnicast() && a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) == 0 {
			return address, nil
		}
	}
	return own, err
}

func (c *ipv6) Acquire(ctx context.Context, wanted netip.Addr, record func(dhcp.Lease) error) (dhcp.Lease, error) {
	solicit, err := c.message(dhcpv6.MessageTypeSolicit, "", wanted)
	if err != nil {
		return dhcp.Lease{}, err
	}
	var offer dhcp.Lease
	err = c.exchange(ctx, request{pauses: discoverPauses, asked: fmt.Sprintf("offers an address within %s", Timeout)}, solicit, func(m *dhcpv6.Message, from netip.Addr) error {
		if m.MessageType != dhcpv6.MessageTypeAdvertise {
			return errors.New(m.MessageType.String())
		}
		offer, err = c.leaseOf(m, from, netip.Addr{})
		return err
	})
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
func (c *ipv6) request(ctx context.Context, offer dhcp.Lease) (l dhcp.Lease, err error) {
	m, err := c.message(dhcpv6.MessageTypeRequest, offer.ServerID, offer.Address.Addr())
	if err != nil {
		return l, err
	}
	err = c.exchange(ctx, request{pauses: requestPauses, asked: fmt.Sprintf("gives the address %s that %s has offered", offer.Address.Addr(), offer.Server)}, m,
		func(m *dhcpv6.Message, from netip.Addr) error { return c.given(m, from, offer, true, &l) })
	return l, err
}

func (c *ipv6) Renew(ctx context.Context, l dhcp.Lease) (dhcp.Lease, error) {
	return c.extend(ctx, dhcpv6.MessageTypeRenew, l, l.ServerID, fmt.Sprintf("%s extends the lease of %s", l.Server, l.Address.Addr()))
}

func (c *ipv6) Rebind(ctx context.Context, l dhcp.Lease) (dhcp.Lease, error) {
	return c.extend(ctx, dhcpv6.MessageTypeRebind, l, "", fmt.Sprintf("extends the lease of %s", l.Address.Addr()))
}

func (c *ipv6) extend(ctx context.Context, t dhcpv6.MessageType, l dhcp.Lease, server, asked string) (extended dhcp.Lease, err error) {
	m, err := c.message(t, server, l.Address.Addr())
	if err != nil {
		return extended, err
	}
	err = c.exchange(ctx, request{pauses: requestPauses, asked: asked}, m,
		func(m *dhcpv6.Message, from netip.Addr) error { return c.given(m, from, l, server != "", &extended) })
	return extended, err
}

func (c *ipv6) Release(l dhcp.Lease) error { return c.tell(dhcpv6.MessageTypeRelease, l) }

// decline tells the server that another host has the address of a lease.
func (c *ipv6) decline(l dhcp.Lease) error { return c.tell(dhcpv6.MessageTypeDecline, l) }

// tell sends a server a message about its lease. No answer is awaited.
func (c *ipv6) tell(t dhcpv6.MessageType, l dhcp.Lease) error {
	m, err := c.message(t, l.ServerID, l.Address.Addr())
	if err != nil {
		return err
	}
	return c.link.Send(encodeIPv6(m.ToBytes(), c.own), allServersHop)
}

// given takes the answer to a request: the lease, or that it is refused. The answers of other servers are not meant.
func (c *ipv6) given(m *dhcpv6.Message, from netip.Addr, asked dhcp.Lease, sameServer bool, l *dhcp.Lease) error {
	if m.MessageType != dhcpv6.MessageTypeReply {
		return errors.New(m.MessageType.String())
	}
	if server := serverOf(m); sameServer && server != asked.ServerID {
		return fmt.Errorf("the server identifier is %s, want %s", server, asked.ServerID)
	}
	given, err := c.leaseOf(m, from, asked.Address.Addr())
	if status, ok := errors.AsType[*statusError](err); ok && slices.Contains(refusals, status.code) {
		return &final{fmt.Errorf("%w: %w", ErrRefused, err)}
	}
	if err != nil {
		return err
	}
	*l = given
	return nil
}

// refusals say that the client must not use the address. After others a server may answer to the same request.
var refusals = []iana.StatusCode{iana.StatusNoAddrsAvail, iana.StatusNoBinding, iana.StatusNotOnLink}

// identify returns what servers know the client by: a DUID that is a UUID (RFC 6355) of its identifier, and the number of its only
// association (IAID).
func (c *ipv6) identify() (*dhcpv6.DUIDUUID, [4]byte) {
	sum := sha256.Sum256([]byte(c.ClientID))
	id := &dhcpv6.DUIDUUID{UUID: [16]byte(sum[:16])}
	id.UUID[6], id.UUID[8] = id.UUID[6]&0x0f|0x80, id.UUID[8]&0x3f|0x80 // version 8 of RFC 9562: made of other data
	return id, [4]byte(sum[16:20])
}

// message returns one to a server, or to all without one, about an address, or about any without one.
func (c *ipv6) message(t dhcpv6.MessageType, server string, address netip.Addr) (*dhcpv6.Message, error) {
	m, err := dhcpv6.NewMessage()
	if err != nil {
		return nil, err
	}
	m.MessageType = t
	id, association := c.identify()
	m.AddOption(dhcpv6.OptClientID(id))
	if server != "" {
		data, err := hex.DecodeString(server)
		if err != nil {
			return nil, fmt.Errorf("the server identifier on record is %q: want hexadecimal digits", server)
		}
		duid, err := dhcpv6.DUIDFromBytes(data)
		if err != nil {
			return nil, fmt.Errorf("the server identifier on record: %w", err)
		}
		m.AddOption(dhcpv6.OptServerID(duid))
	}
	ia := &dhcpv6.OptIANA{IaId: association}
	if address.Is6() {
		ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: address.AsSlice()})
	}
	m.AddOption(ia)
	if t == dhcpv6.MessageTypeRelease || t == dhcpv6.MessageTypeDecline {
		return m, nil
	}
	m.AddOption(dhcpv6.OptRequestedOption(dhcpv6.OptionDNSRecursiveNameServer, dhcpv6.OptionDomainSearchList))
	if c.HostName != "" {
		const serverUpdates = 1 // DNS
		m.AddOption(&dhcpv6.OptFQDN{Flags: serverUpdates, DomainName: &rfc1035label.Labels{Labels: []string{c.HostName}}})
	}
	return m, nil
}

// exchange sends a message to all servers until accept takes an answer.
func (c *ipv6) exchange(ctx context.Context, r request, m *dhcpv6.Message, accept func(m *dhcpv6.Message, from netip.Addr) error) error {
	id, _ := c.identify()
	r.protocol, r.hop, r.decode, r.guard = "DHCPv6", allServersHop, decodeIPv6, c.Guard
	r.packet = func(elapsed time.Duration) []byte {
		m.UpdateOption(dhcpv6.OptElapsedTime(elapsed))
		return encodeIPv6(m.ToBytes(), c.own)
	}
	r.take = func(message []byte, from netip.Addr, _ net.HardwareAddr) (bool, error) {
		a, err := dhcpv6.MessageFromBytes(message)
		if err != nil {
			return false, fmt.Errorf("a message that cannot be read: %w", err)
		}
		if client := a.Options.ClientID(); a.TransactionID != m.TransactionID || client == nil || !id.Equal(client) {
			return false, nil
		}
		err = accept(a, from)
		return err == nil, err
	}
	return exchange(ctx, c.link, r)
}

// statusError is what a server says of an address that it does not give.
type statusError struct {
	error
	code iana.StatusCode
}

// statusOf returns the error of a status with a text of the server; nil if it is none.
func statusOf(code iana.StatusCode, text string) error {
	switch {
	case code == iana.StatusSuccess:
		return nil
	case text == "":
		return &statusError{errors.New(code.String()), code}
	}
	return &statusError{fmt.Errorf("%s, %.100q", code, text), code}
}
