// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv6"

	"github.com/allocnet/allocnet/internal/acd"
	"github.com/allocnet/allocnet/internal/dhcp"
)

// contestedBy is a link on which another interface has each address, or which cannot be asked.
func contestedBy(err error, asked *[]time.Duration) asking {
	return func(_ context.Context, a netip.Addr, wait time.Duration) (bool, error) {
		*asked = append(*asked, wait)
		return err == nil, err
	}
}

// TestContested: a lease whose address another interface has is none. It is on record as lost before the server is told that, and nothing is
// told of a client that may be the other interface.
func TestContested(t *testing.T) {
	unusable, full := errors.New("it has no carrier"), errors.New("no space left on device")
	for name, test := range map[string]struct {
		shared             bool
		err, unrecorded    error
		records, declines  int
		waitsFour, waitSix time.Duration
	}{
		"contested":                        {records: 2, declines: 1, waitsFour: glance, waitSix: acd.Wait},
		"by an earlier allocation":         {shared: true, records: 1, waitsFour: acd.Wait, waitSix: acd.Wait},
		"the link cannot be asked":         {err: unusable, records: 1, waitsFour: glance, waitSix: acd.Wait},
		"that it is lost is not on record": {unrecorded: full, records: 2, waitsFour: glance, waitSix: acd.Wait},
	} {
		var asked []time.Duration
		var recorded []dhcp.Lease
		record := func(l dhcp.Lease) error {
			recorded = append(recorded, l)
			if l.Lost {
				return test.unrecorded
			}
			return nil
		}
		require := func(family string, err error, declined int, wait time.Duration) {
			t.Helper()
			var used *InUseError
			if test.err == nil && !errors.As(err, &used) || test.err != nil && !errors.Is(err, test.err) || test.unrecorded != nil && !errors.Is(err, test.unrecorded) {
				t.Errorf("%s: %s: %v", name, family, err)
			}
			if declined != test.declines || len(recorded) != test.records || recorded[len(recorded)-1].Lost != (test.records == 2) || recorded[len(recorded)-1].Declined != (test.records == 2) || !slices.Equal(asked, []time.Duration{wait}) {
				t.Errorf("%s: %s: declined %d times, recorded %+v, asked for %s", name, family, declined, recorded, asked)
			}
			asked, recorded = nil, nil
		}
		four := &server{answers: func(m *dhcpv4.DHCPv4) []*dhcpv4.DHCPv4 {
			if m.MessageType() == dhcpv4.MessageTypeDecline {
				return nil
			}
			return always()(m)
		}}
		c := clientOf(four)
		c.Shared, c.contested = test.shared, contestedBy(test.err, &asked)
		_, err := c.Acquire(t.Context(), netip.Addr{}, record)
		require("IPv4", err, len(four.seen)-2, test.waitsFour)
		if m := four.seen[len(four.seen)-1]; test.declines > 0 && (m.MessageType() != dhcpv4.MessageTypeDecline || m.RequestedIPAddress().String() != "10.0.0.5" || m.ServerIdentifier().String() != "10.0.0.1" ||
			!m.ClientIPAddr.IsUnspecified() || four.to[len(four.to)-1] != everyone.to || m.Options.Has(dhcpv4.OptionParameterRequestList) || !strings.Contains(err.Error(), "the address 10.0.0.5 that 10.0.0.1 gives has another interface of the link already")) {
			t.Errorf("%s: %v\n%s", name, err, m)
		}
		six := &server6{answers: func(m *dhcpv6.Message) []*dhcpv6.Message {
			if m.MessageType == dhcpv6.MessageTypeDecline {
				return nil
			}
			return always6()(m)
		}}
		c6 := clientOf6(six)
		c6.Shared, c6.contested = test.shared, contestedBy(test.err, &asked)
		_, err = c6.Acquire(t.Context(), netip.Addr{}, record)
		require("IPv6", err, len(six.seen)-2, test.waitSix)
		if m := six.seen[len(six.seen)-1]; test.declines > 0 && (m.MessageType != dhcpv6.MessageTypeDecline || m.Options.OneIANA().Options.OneAddress().IPv6Addr.String() != "2001:db8::5" || serverOf(m) != serverID6) {
			t.Errorf("%s: %s", name, m)
		}
	}
}

// TestSharedIsAskedForTwice: a client that another interface was before asks once more after that has released its lease, with the same message:
// answers to others may go to the address.
func TestSharedIsAskedForTwice(t *testing.T) {
	four, six := &server{answers: always()}, &server6{answers: always6()}
	c, c6, record := clientOf(four), clientOf6(six), func(dhcp.Lease) error { return nil }
	c.Shared, c6.Shared = true, true
	if _, err := c.Acquire(t.Context(), netip.Addr{}, record); err != nil || len(four.seen) != 3 || four.seen[2].MessageType() != dhcpv4.MessageTypeRequest || !four.seen[2].ClientIPAddr.IsUnspecified() ||
		four.seen[2].RequestedIPAddress().String() != "10.0.0.5" {
		t.Errorf("%v: %v", err, four.seen)
	}
	if _, err := c6.Acquire(t.Context(), netip.Addr{}, record); err != nil || len(six.seen) != 3 || six.seen[2].MessageType != dhcpv6.MessageTypeRequest || serverOf(six.seen[2]) != serverID6 {
		t.Errorf("%v: %v", err, six.seen)
	}
}
