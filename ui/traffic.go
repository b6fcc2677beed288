// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/allocnet/allocnet/allocation"
)

const (
	// shortestSpan and longestSpan bound the time between two counts of which a rate is made.
	shortestSpan, longestSpan = time.Second, time.Minute
	// trafficEvery is after how many seconds an open page of an allocation loads itself again: traffic is no event.
	trafficEvery = 5
)

// rates makes rates of what interfaces count, from one page to the next one.
type rates struct {
	mu   sync.Mutex
	last map[string]reading // by allocation and interface
}

// reading is what an interface had counted at a time, and its rate until then.
type reading struct {
	at    time.Time
	count allocation.Traffic
	rate  *rate
}

// rate is in bytes for a second.
type rate struct{ Received, Sent float64 }

// add notes what an interface has counted, and returns the rate. Nil: it is not known yet.
func (r *rates) add(allocation, iface string, count allocation.Traffic, now time.Time) *rate {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[string]reading{}
	}
	maps.DeleteFunc(r.last, func(_ string, s reading) bool { return now.Sub(s.at) > longestSpan })
	key := allocation + "/" + iface
	before, ok := r.last[key]
	span := now.Sub(before.at)
	switch {
	case !ok || count.ReceivedBytes < before.count.ReceivedBytes || count.SentBytes < before.count.SentBytes: // another interface
		r.last[key] = reading{now, count, nil}
	case span >= shortestSpan:
		per := func(now, before uint64) float64 { return float64(now-before) / span.Seconds() }
		r.last[key] = reading{now, count, &rate{per(count.ReceivedBytes, before.count.ReceivedBytes), per(count.SentBytes, before.count.SentBytes)}}
	}
	return r.last[key].rate
}

// bytesText is a number of bytes as people say it.
func bytesText(n float64) string {
	unit := "B"
	for _, larger := range []string{"kB", "MB", "GB", "TB", "PB", "EB"} {
		if n < 999.5 {
			break
		}
		n, unit = n/1000, larger
	}
	if unit == "B" || n >= 99.95 {
		return fmt.Sprintf("%.0f %s", n, unit)
	}
	return fmt.Sprintf("%.1f %s", n, unit)
}
