// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// late is how long an answer may take.
const late = time.Second

// State is what is known of a flow. Packets of the last second are not counted as sent or lost.
type State struct {
	Flow string `json:"flow"`
	Sent int    `json:"sent"`
	Lost int    `json:"lost"`
	// Recent are those of the last second.
	Recent int `json:"recent"`
	// Gap is the longest time from a packet that was answered to the next one, in
	// milliseconds, if one between them was not. Without an answer it is that until now.
	Gap int64 `json:"gapMS"`
	// Flows is whether a packet of the last second has been answered.
	Flows bool `json:"flows"`
}

// flow is the packets to one server. A packet has its number in all 8 bytes.
type flow struct {
	name       string
	connection net.Conn

	mu       sync.Mutex
	first    uint64 // number of sent[0]
	sent     []time.Time
	answered []bool
}

func (f *flow) send() {
	packet := make([]byte, 8)
	for range time.Tick(pace) {
		f.mu.Lock()
		binary.BigEndian.PutUint64(packet, f.first+uint64(len(f.sent)))
		f.sent, f.answered = append(f.sent, time.Now()), append(f.answered, false)
		f.mu.Unlock()
		_, _ = f.connection.Write(packet) // it is lost then
	}
}

func (f *flow) receive() {
	packet := make([]byte, 64)
	for {
		n, err := f.connection.Read(packet)
		if err != nil || n != 8 { // an ICMP error is that of a packet
			continue
		}
		number := binary.BigEndian.Uint64(packet)
		f.mu.Lock()
		if i := number - f.first; i < uint64(len(f.answered)) { // also without those of before a reset
			f.answered[i] = true
		}
		f.mu.Unlock()
	}
}

// state returns what is known, and forgets it if it is to begin anew.
func (f *flow) state(reset bool) State {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := State{Flow: f.name}
	now, last := time.Now(), 0
	for i, at := range f.sent {
		recent := now.Sub(at) < late
		switch {
		case f.answered[i]:
			if s.Flows = s.Flows || recent; i > last+1 {
				s.Gap = max(s.Gap, at.Sub(f.sent[last]).Milliseconds())
			}
			last = i
		case !recent:
			s.Lost++
		}
		if recent {
			s.Recent++
		} else {
			s.Sent++
		}
	}
	if !s.Flows && len(f.sent) > 0 {
		s.Gap = max(s.Gap, now.Sub(f.sent[last]).Milliseconds())
	}
	if reset {
		f.first += uint64(len(f.sent))
		f.sent, f.answered = nil, nil
	}
	return s
}
