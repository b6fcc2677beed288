// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package dhcp

import (
	"encoding/json"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// start is when hour was given.
const start = 1000 * time.Second

// hour is a lease of an hour that was given 1000 s after boot.
var hour = Lease{Clock: Span(start), Renewal: Span(30 * time.Minute), Rebinding: Span(52 * time.Minute), Lifetime: Span(time.Hour)}

// TestStages: each begins at its time, and a lost lease has ended at any.
func TestStages(t *testing.T) {
	lost, endless := hour, hour
	lost.Lost, endless.Lifetime = true, Span(forever)
	for age, want := range map[time.Duration]Stage{
		0: Bound, 30*time.Minute - 1: Bound, 30 * time.Minute: Renewing, 52*time.Minute - 1: Renewing,
		52 * time.Minute: Rebinding, time.Hour - 1: Rebinding, time.Hour: Ended, 100 * time.Hour: Ended,
	} {
		if got := hour.Stage(start + age); got != want {
			t.Errorf("after %s: %d, want %d", age, got, want)
		}
		if got := lost.Stage(start + age); got != Ended {
			t.Errorf("lost, after %s: %d", age, got)
		}
		if got := endless.Stage(start + age); got != Bound {
			t.Errorf("forever, after %s: %d", age, got)
		}
	}
}

// TestAttempts: the first is at the renewal, then half of what is left is waited for, a minute at least, and no stage begins later.
func TestAttempts(t *testing.T) {
	for tried, want := range map[time.Duration]time.Duration{
		0:                30 * time.Minute,
		30 * time.Minute: 41 * time.Minute,
		51 * time.Minute: 52 * time.Minute,
		52 * time.Minute: 56 * time.Minute,
		59 * time.Minute: time.Hour,
		time.Hour:        time.Hour + endedPause,
	} {
		if got := hour.Due(start+tried) - start; got != want {
			t.Errorf("after an attempt at %s the next is at %s, want %s", tried, got, want)
		}
	}
	if got := hour.Due(0) - start; got != 30*time.Minute {
		t.Errorf("the first is at %s", got)
	}
	endless := hour
	endless.Lifetime = Span(forever)
	if endless.Due(0) != forever || !endless.Expires().IsZero() {
		t.Error("a lease that does not end is due")
	}
	if got := hour.Expires().Sub(hour.Acquired); got != time.Hour {
		t.Errorf("it expires after %s", got)
	}
}

// TestRecord: a lease is read as it was written.
func TestRecord(t *testing.T) {
	l := hour
	l.ClientID, l.Server, l.Address, l.Former = "c", netip.MustParseAddr("10.0.0.1"), netip.MustParsePrefix("10.0.0.5/24"), &Lease{Address: netip.MustParsePrefix("10.0.0.4/24")}
	l.Routes = []Route{{To: netip.MustParsePrefix("10.9.0.0/16")}}
	data, err := json.Marshal(l)
	var read Lease
	if err == nil {
		err = json.Unmarshal(data, &read)
	}
	if err != nil || !read.SameAs(l) || read.Due(0) != l.Due(0) || !slices.Equal(read.Addresses(), l.Addresses()) || read.Gateway.IsValid() || read.Routes[0].Via.IsValid() {
		t.Errorf("%s: %+v, %v", data, read, err)
	}
}

// TestNow does not go back.
func TestNow(t *testing.T) {
	first := Now()
	if second := Now(); first <= 0 || second < first {
		t.Errorf("%d, then %d", first, second)
	}
}

// TestSameAs: any difference of what a lease gives is one; its times give nothing.
func TestSameAs(t *testing.T) {
	a, other := netip.MustParseAddr("10.0.0.1"), hour
	other.Clock, other.Server = 0, a
	if !hour.SameAs(other) {
		t.Error("times or the server are a difference")
	}
	for i, change := range []func(l *Lease){
		func(l *Lease) { l.Address = netip.PrefixFrom(a, 24) }, func(l *Lease) { l.Gateway = a }, func(l *Lease) { l.Domain = "a" }, func(l *Lease) { l.Lost = true },
		func(l *Lease) { l.Routes = []Route{{Via: a}} }, func(l *Lease) { l.DNS = []netip.Addr{a} }, func(l *Lease) { l.Search = []string{"a"} },
	} {
		changed := hour
		if change(&changed); hour.SameAs(changed) {
			t.Errorf("change %d is no difference", i)
		}
	}
}
