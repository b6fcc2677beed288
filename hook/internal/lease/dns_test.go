// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package lease

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/dhcp"
)

// TestDNS: with a lease that is lost and had again, its DNS goes and comes. That which a network has for itself stays.
func TestDNS(t *testing.T) {
	given := other()
	given.DNS = []netip.Addr{netip.MustParseAddr("10.0.0.53")}
	for has, want := range map[string][2]string{"192.0.2.53": {"192.0.2.53", "192.0.2.53"}, "10.0.0.54": {"", "10.0.0.53"}} {
		w := newWorld(t)
		a := w.read()
		a.DHCP.DNS = []netip.Addr{netip.MustParseAddr("10.0.0.54")}
		a.Result = json.RawMessage(strings.Replace(string(a.Result), `"routes"`, `"dns": {"nameservers": ["`+has+`"]}, "routes"`, 1))
		w.record(a)
		k, err := w.keeper(nil), error(silence)
		w.answer = func(string, dhcp.Lease) (dhcp.Lease, error) { return given, err }
		for i, after := range []time.Duration{time.Hour, 62 * time.Minute} {
			w.round(k, after)
			result, unread := onrecord.ParseResult(w.read().Result)
			if unread != nil || w.read().DHCP.Lost != (i == 0) || strings.Join(result.DNS.Nameservers, " ") != want[i] {
				t.Errorf("it has %s, after %s: %v, DNS %q, want %q", has, after, unread, result.DNS.Nameservers, want[i])
			}
			err = nil
		}
	}
}
