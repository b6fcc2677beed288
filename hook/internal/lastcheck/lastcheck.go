// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package lastcheck keeps, for attachments with plugins that allocnet does not know, the result of their last CHECK, and tells
// whether it proves damage.
package lastcheck

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/state"
)

// Outcomes are the last ones of attachments. The zero value has none.
type Outcomes struct {
	mu       sync.Mutex
	outcomes map[Key]Outcome
}

// Key is that of an attachment. One that is made again is another one.
type Key struct {
	allocation, iface string
	created           int64
}

// KeyOf returns that of an attachment on record.
func KeyOf(r state.Record, a state.Attachment) Key {
	return Key{r.Allocation.ID, a.Interface, a.Created.UnixNano()}
}

// Outcome is the outcome of a CHECK.
type Outcome struct {
	// At is when it was, and Err what it said.
	At  time.Time
	Err error
	// Damages is how many CHECKs have reported damage since the last one that did not.
	Damages int
	// Reported is whether a repair has told of it.
	Reported bool
}

// Of returns the last one of an attachment.
func (l *Outcomes) Of(k Key) (Outcome, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, found := l.outcomes[k]
	return last, found
}

// Note notes what a CHECK has said now.
func (l *Outcomes) Note(k Key, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.outcomes == nil {
		l.outcomes = map[Key]Outcome{}
	}
	last := Outcome{At: time.Now(), Err: err}
	if err != nil && inspect.IsDamage(err) {
		last.Damages = l.outcomes[k].Damages + 1
	}
	l.outcomes[k] = last
}

// Forget drops the outcomes of an attachment that was attached again.
func (l *Outcomes) Forget(k Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.outcomes, k)
}

// Judged is what the outcome proves.
func (l Outcome) Judged() error {
	if l.Damages == 1 {
		return SeenOnce(l.Err)
	}
	return l.Err
}

// Report notes that a repair tells of an outcome.
func (l *Outcomes) Report(k Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, found := l.outcomes[k]; found {
		last.Reported = true
		l.outcomes[k] = last
	}
}

// Keep forgets allocations that are none of these.
func (l *Outcomes) Keep(ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.outcomes, func(k Key, _ Outcome) bool { return !slices.Contains(ids, k.allocation) })
}

// SeenOnce is damage that only one CHECK has reported: no proof of damage.
func SeenOnce(err error) error {
	return fmt.Errorf("a CHECK of its plugins failed, and the next one tells whether it is damaged: %s", err.Error())
}
