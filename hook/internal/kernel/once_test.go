// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
)

// listedHost counts how its addresses are listed. They are those of up0, of which it had all but new at first.
type listedHost struct {
	Host
	had, now, hidden netip.Addr
	unlisted         error
	listed, held     int
}

func (h *listedHost) Addressed() ([]netns.Interface, error) {
	h.listed++
	return []netns.Interface{{Name: "up0", Addresses: []netip.Prefix{netip.PrefixFrom(h.had, 24)}}}, h.unlisted
}

func (h *listedHost) MayHold(a netip.Addr) bool { return a == h.now }

func (h *listedHost) Holder(all []netip.Addr) (netip.Addr, string, error) {
	h.held++
	for _, a := range all {
		if a == h.now || a == h.hidden {
			return a, "up0", nil
		}
	}
	return netip.Addr{}, "", nil
}

// TestOnce: the addresses are listed once while nothing speaks for one that the host has. What it got or lost since is true, and
// so is what it has where it cannot be asked for an address, as in a VRF, or could not be listed.
func TestOnce(t *testing.T) {
	address := netip.MustParseAddr
	free, had, came := address("192.0.2.9"), address("192.0.2.1"), address("192.0.2.7")
	for name, test := range map[string]struct {
		host         listedHost
		asked        netip.Addr
		link         string
		listed, held int
	}{
		"free":             {listedHost{had: had, now: had}, free, "", 1, 0},
		"the host's":       {listedHost{had: had, now: had}, had, "up0", 1, 5},
		"lost since":       {listedHost{had: had}, had, "", 1, 5},
		"got since":        {listedHost{had: had, now: came}, came, "up0", 1, 5},
		"in a VRF":         {listedHost{had: had, hidden: had}, had, "up0", 1, 5},
		"cannot be listed": {listedHost{hidden: free, unlisted: errors.New("no buffer space")}, free, "up0", 1, 5},
	} {
		h := Once(&test.host)
		if _, err := h.Addressed(); !errors.Is(err, test.host.unlisted) {
			t.Errorf("%s: %v", name, err)
		}
		for range 5 {
			held, link, err := h.Holder([]netip.Addr{address("192.0.2.8"), test.asked})
			if link != test.link || err != nil || link != "" && held != test.asked {
				t.Errorf("%s: %v, %q, %v", name, held, link, err)
			}
		}
		if test.host.listed != test.listed || test.host.held != test.held {
			t.Errorf("%s: listed %d and %d times, want %d and %d", name, test.host.listed, test.host.held, test.listed, test.held)
		}
	}
}
