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

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/state"
)

// formatVersion is the version of the lines. A reader skips lines of another one.
const formatVersion = 1

// Event is one thing that the engine did, or refused to do.
type Event = api.Event

// OpPool is a problem of a pool of allocnet-ipam that has begun (hook.Failed), or ended (hook.Done). Its Reason is the kind of
// the problem.
const OpPool = "pool"

func of(o hook.Observation, caller string) Event {
	e := Event{
		Time: time.Now().UTC(), Operation: string(o.Op), Outcome: string(o.Outcome()), Reason: string(o.Reason), Caller: caller,
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
	maxLine = 4 << 10
	// maxError, maxName, maxNetworks, maxMissing and maxRemovers bound what callers choose.
	maxError    = 1 << 10
	maxName     = 128
	maxNetworks = 8
	maxMissing  = 8
	maxRemovers = 4
)

func bound(e *Event) {
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

func lineOf(e Event) ([]byte, error) {
	e.Version = formatVersion
	bound(&e)
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

// Filter selects events. Empty fields select all.
type Filter struct {
	// Allocation is an ID, or the first characters of an ID of Nomad. All of Nomad's IDs
	// have one length; of other IDs, one may begin with another.
	Allocation string
	// Network is the name of a network.
	Network string
	// After is the index of an event: only newer ones are selected.
	After uint64
	// Since selects only events that ended at this time or later. The zero value selects all.
	Since time.Time
}

func (f Filter) selects(e Event) bool {
	if e.Time.Before(f.Since) {
		return false
	}
	if f.Network != "" && !slices.Contains(e.Networks, f.Network) {
		return false
	}
	return f.SelectsAllocation(e.Allocation)
}

// SelectsAllocation tells whether what is of an allocation is selected, if the rest of the filter does.
func (f Filter) SelectsAllocation(id string) bool {
	return f.Allocation == "" || id == f.Allocation || state.IsNomadID(id) && strings.HasPrefix(id, f.Allocation)
}
