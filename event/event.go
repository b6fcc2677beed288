// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package event

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/allocnet/allocnet/hook"
)

// formatVersion is the version of the lines. A reader skips lines of another one.
const formatVersion = 1

// Event is one thing that the engine did, or refused to do.
type Event struct {
	Version int `json:"version"`
	// Index grows by one from event to event.
	Index uint64 `json:"index"`
	// Time is when it was done.
	Time time.Time `json:"time"`
	// Operation, Outcome and Reason are those of hook.Observation.
	Operation hook.Op      `json:"operation"`
	Outcome   hook.Outcome `json:"outcome"`
	Reason    hook.Reason  `json:"reason,omitempty"`
	// Caller is the program that did it.
	Caller string `json:"caller"`
	// Allocation is empty for an invalid ID.
	Allocation string `json:"allocation,omitempty"`
	// Namespace, Job and Task are those of Nomad. Empty: unknown.
	Namespace string `json:"namespace,omitempty"`
	Job       string `json:"job,omitempty"`
	Task      string `json:"task,omitempty"`
	// Networks are that of the attachment, or those of a refused request.
	Networks  []string `json:"networks,omitempty"`
	Interface string   `json:"interface,omitempty"`
	// Attempts is the number of attempts so far.
	Attempts int `json:"attempts,omitempty"`
	// Objects is the number of leaked objects that were removed.
	Objects int `json:"objects,omitempty"`
	// Missing is what a running attachment lacked.
	Missing []string `json:"missing,omitempty"`
	// RemovedBy are the processes that are known to have removed rules of the chains that lack some. They chose their names.
	RemovedBy []hook.Remover `json:"removedBy,omitempty"`
	// Seconds is the time of all attempts and the pauses between them.
	Seconds float64 `json:"seconds"`
	// Pool is the pool of an event with OpPool.
	Pool string `json:"pool,omitempty"`
	// Error is empty when it succeeded.
	Error string `json:"error,omitempty"`
}

// OpPool is a problem of a pool of allocnet-ipam that has begun (hook.Failed), or ended (hook.Done). Its Reason is the kind of
// the problem.
const OpPool hook.Op = "pool"

// Took is Seconds as a duration.
func (e Event) Took() time.Duration { return time.Duration(e.Seconds * float64(time.Second)) }

// of returns the event of an observation.
func of(o hook.Observation, caller string) Event {
	e := Event{
		Time: time.Now().UTC(), Operation: o.Op, Outcome: o.Outcome(), Reason: o.Reason, Caller: caller,
		Allocation: o.Allocation, Namespace: o.Identity.Namespace, Job: o.Identity.Job, Task: o.Task,
		Networks: slices.Clone(o.Networks), Interface: o.Interface, Attempts: o.Attempts, Objects: o.Objects,
		Missing: slices.Clone(o.Missing), RemovedBy: slices.Clone(o.RemovedBy),
		Seconds: o.Took.Round(100 * time.Microsecond).Seconds(),
	}
	if o.Network != "" {
		e.Networks = []string{o.Network}
	}
	if o.Err != nil {
		e.Error = plain(o.Err.Error())
	}
	return e
}

// plain returns an error of several lines as one.
func plain(text string) string {
	var parts []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}

const (
	// maxLine is the length of the longest line.
	maxLine = 4 << 10
	// maxError, maxName, maxNetworks, maxMissing and maxRemovers bound what callers choose.
	maxError    = 1 << 10
	maxName     = 128
	maxNetworks = 8
	maxMissing  = 8
	maxRemovers = 4
)

// bound shortens what callers choose.
func (e *Event) bound() {
	for _, name := range []*string{&e.Caller, &e.Pool, &e.Allocation, &e.Namespace, &e.Job, &e.Task, &e.Interface} {
		*name = shorten(*name, maxName)
	}
	e.Networks, e.Missing = boundList(e.Networks, maxNetworks), boundList(e.Missing, maxMissing)
	e.RemovedBy = e.RemovedBy[:min(len(e.RemovedBy), maxRemovers)]
	for i := range e.RemovedBy {
		for _, name := range []*string{&e.RemovedBy[i].Name, &e.RemovedBy[i].Parent} {
			*name = shorten(*name, maxName)
		}
	}
	e.Error = shorten(e.Error, maxError)
}

// boundList shortens a list and its texts.
func boundList(list []string, limit int) []string {
	if more := len(list) - limit; more > 0 {
		list = append(slices.Clone(list[:limit]), fmt.Sprintf("and %d more", more))
	}
	for i, text := range list {
		list[i] = shorten(text, maxName)
	}
	return list
}

// shorten cuts a text between two characters.
func shorten(text string, limit int) string {
	const mark = "..."
	if len(text) <= limit {
		return text
	}
	end := limit - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// line returns an event as a line of at most maxLine bytes.
func (e Event) line() ([]byte, error) {
	e.Version = formatVersion
	e.bound()
	data, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	if len(data) < maxLine {
		return append(data, '\n'), nil
	}
	// JSON writes a control character in six bytes.
	e.Networks, e.Missing, e.RemovedBy, e.Error, e.Interface = nil, nil, nil, shorten(e.Error, maxName), ""
	e.Namespace, e.Job, e.Task = "", "", ""
	if data, err = json.Marshal(e); err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

// parse returns the event of a line. It is false for what is no event of this format.
func parse(line []byte) (Event, bool) {
	var e Event
	err := json.Unmarshal(line, &e)
	return e, err == nil && e.Version == formatVersion && e.Index > 0
}
