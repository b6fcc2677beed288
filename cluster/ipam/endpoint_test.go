// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestEndpoint(t *testing.T) {
	for name, test := range map[string]struct {
		address, linkLocal, mac string
		// field is that which the error names. Empty: there is none.
		field string
	}{
		"routed":               {address: "10.0.0.5"},
		"routed, dual stack":   {address: "10.0.0.5", linkLocal: "fe80::1"},
		"IPv6":                 {address: "2001:db8::5", linkLocal: "fe80::1"},
		"VXLAN":                {address: "10.0.0.5", mac: "02:00:5e:00:53:01"},
		"none":                 {field: "address"},
		"only a MAC":           {mac: "02:00:5e:00:53:01", field: "address"},
		"unspecified":          {address: "0.0.0.0", field: "address"},
		"unspecified, IPv6":    {address: "::", field: "address"},
		"loopback":             {address: "127.0.0.1", field: "address"},
		"multicast":            {address: "224.0.0.1", field: "address"},
		"broadcast":            {address: "255.255.255.255", field: "address"},
		"link-local":           {address: "169.254.1.1", field: "address"},
		"link-local, IPv6":     {address: "fe80::1", field: "address"},
		"mapped":               {address: "::ffff:10.0.0.5", field: "address"},
		"zone":                 {address: "2001:db8::5%eth0", field: "address"},
		"global next hop":      {address: "10.0.0.5", linkLocal: "2001:db8::5", field: "linkLocal"},
		"next hop with zone":   {address: "10.0.0.5", linkLocal: "fe80::1%eth0", field: "linkLocal"},
		"IPv4 next hop":        {address: "10.0.0.5", linkLocal: "169.254.1.1", field: "linkLocal"},
		"multicast MAC":        {address: "10.0.0.5", mac: "01:00:5e:00:53:01", field: "mac"},
		"broadcast MAC":        {address: "10.0.0.5", mac: "ff:ff:ff:ff:ff:ff", field: "mac"},
		"zero MAC":             {address: "10.0.0.5", mac: "00:00:00:00:00:00", field: "mac"},
		"long MAC":             {address: "10.0.0.5", mac: "02:00:5e:00:53:01:00:00", field: "mac"},
		"MAC in another form":  {address: "10.0.0.5", mac: "02-00-5E-00-53-01", field: "mac"},
		"no MAC, and terminal": {address: "10.0.0.5", mac: "\x1b[2J", field: "mac"},
	} {
		e := Endpoint{Address: parseAddr(t, test.address), LinkLocal: parseAddr(t, test.linkLocal), MAC: test.mac}
		err := e.Validate()
		if (err == nil) != (test.field == "") || err != nil && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "endpoint: "+test.field+" is")) {
			t.Errorf("%s: error %v, want one of %q", name, err, test.field)
		}
	}
}

// parseAddr returns no address for an empty text.
func parseAddr(t *testing.T, text string) netip.Addr {
	t.Helper()
	if text == "" {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
