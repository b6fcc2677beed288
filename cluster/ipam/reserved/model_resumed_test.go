// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"maps"
	"net/netip"
	"strings"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// resumed are two machines that go on from one snapshot with memory: in one boot, with the same
// records, leases and namespaces.
type resumed struct {
	original, copied *modelHost
	// last is the one that has renewed its nonce in the store, and renewed when each did.
	last    *modelHost
	renewed map[*modelHost]time.Time
	// refused: one has found the nonce of the other. known: both have had the time for that.
	refused, known bool
	// addresses are those that both had, or changed before they were known.
	addresses map[netip.Addr]bool
}

func (r *resumed) has(h *modelHost) bool { return r != nil && (h == r.original || h == r.copied) }

// mayDouble tells whether the resumed machines may have given an address to two: no one can prevent
// that before they are known.
func (r *resumed) mayDouble(address netip.Addr) bool { return r != nil && r.addresses[address] }

// wrote notes an entry that one of the machines has changed.
func (r *resumed) wrote(by *modelHost, path string) {
	if !r.has(by) || r.known {
		return
	}
	if address, err := ipam.ParseAddressName(path[strings.LastIndex(path, "/")+1:]); err == nil {
		r.addresses[address] = true
	}
}

// identify is what package block does with a nonce that is renewed every 40 s.
func (r *resumed) identify(m *model, h *modelHost) error {
	switch {
	case r.copied.dead:
		return nil
	case r.refused, r.last != nil && r.last != h:
		r.refused = true
		return ipam.ErrTwin
	case m.flaw != sameNonce && m.time.Sub(r.renewed[h]) >= renewal:
		r.last, r.renewed[h] = h, m.time
	}
	return nil
}

// renewal is how often a nonce is renewed.
const renewal = 40 * time.Second

// resumeTwice makes a second machine of a host's snapshot with its memory, and lets agents verify
// until both are known. Only the original's namespaces are followed: those of the copy have the
// same addresses from the beginning.
func (m *model) resumeTwice() {
	h := oneOf(m, m.alive())
	if m.copied || m.rolledBack || m.lostState {
		return
	}
	m.copied = true
	m.counts.resumed.Add(1)
	c := *h
	c.number, c.records, c.memory, c.leases = len(m.hosts), maps.Clone(h.records), copyMemory(h.memory), maps.Clone(h.leases)
	c.locked, c.backup, c.boots, c.copyOf, h.copied = nil, nil, nil, h, &c
	m.hosts = append(m.hosts, &c)
	m.trace("host %d goes on as %d, too", h.number, c.number)
	last := m.time.Add(-time.Duration(m.random.Int64N(int64(renewal))))
	r := &resumed{original: h, copied: &c, renewed: map[*modelHost]time.Time{h: last, &c: last}, addresses: map[netip.Addr]bool{}}
	for address := range m.all() {
		if _, ok := h.records[address]; ok || m.living[address].host == h {
			r.addresses[address] = true
		}
	}
	for m.resumed = r; m.time.Before(last.Add(3 * renewal)); {
		m.verifyAll()
		m.pass(9 * time.Second)
		m.add(oneOf(m, m.alive()))
	}
	r.known = true
}
