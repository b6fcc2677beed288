// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock tells the time, and how long the host has been up, which no step of the time changes.
type clock interface {
	now() time.Time
	uptime() time.Duration
}

type kernelClock struct{}

func (kernelClock) now() time.Time { return time.Now() }

func (kernelClock) uptime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // the kernel has this clock
	}
	return time.Duration(t.Nano())
}

// moment is a point in time that can be compared within a boot whatever the clock does.
type moment struct {
	Time time.Time `json:"time"`
	// Uptime is in nanoseconds.
	Uptime int64  `json:"uptime"`
	Boot   string `json:"boot"`
}

func (m moment) isZero() bool { return m.Time.IsZero() }

func (m *machine) moment(boot string) moment {
	return moment{Time: m.clock.now().UTC(), Uptime: int64(m.clock.uptime()), Boot: boot}
}

// since returns how long ago an earlier moment was. Of another boot, it is false if the clock
// says that it is yet to come.
func (m moment) since(earlier moment) (time.Duration, bool) {
	if m.Boot == earlier.Boot {
		return time.Duration(m.Uptime - earlier.Uptime), true
	}
	age := m.Time.Sub(earlier.Time)
	return age, age >= 0 && !earlier.isZero()
}

// within tells whether an earlier moment was less than a short time ago. In doubt it was.
func (m moment) within(d time.Duration, earlier moment) bool {
	if earlier.isZero() {
		return false
	}
	age, ok := m.since(earlier)
	return !ok || age < d
}

// older tells whether an earlier moment was longer ago than allowed. In doubt it was.
func (m moment) older(d time.Duration, earlier moment) bool {
	age, ok := m.since(earlier)
	return !ok || age > d || earlier.isZero()
}
