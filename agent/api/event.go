// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"net/url"
	"strconv"
	"time"

	"github.com/allocnet/allocnet/allocation"
)

// ContentEvents is the content type of GET /v1/events: an Event in JSON on each line.
const ContentEvents = "application/x-ndjson"

// Event is one thing that allocnet did on the host, or refused to do. Empty fields are not
// known.
type Event struct {
	// Version is that of the format.
	Version int `json:"version"`
	// Index grows by one from event to event.
	Index uint64    `json:"index"`
	Time  time.Time `json:"time"`
	// Operation is attach, retry, detach, cleanup, repair or pool.
	Operation string `json:"operation"`
	// Outcome is done, failed or refused.
	Outcome string `json:"outcome"`
	// Reason is gc, pending, boot, rollback or reset; empty if the caller asked for it. Of a pool it is the kind of its problem.
	Reason string `json:"reason,omitempty"`
	// Caller is the program or command that did it.
	Caller     string `json:"caller"`
	Allocation string `json:"allocation,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Job        string `json:"job,omitempty"`
	Task       string `json:"task,omitempty"`
	// Networks are that of the attachment; without an Interface those of the request, or
	// of removed leaks.
	Networks  []string `json:"networks,omitempty"`
	Interface string   `json:"interface,omitempty"`
	Attempts  int      `json:"attempts,omitempty"`
	// Objects is the number of leaked objects that were removed.
	Objects int `json:"objects,omitempty"`
	// Missing is what a running attachment lacked, in words.
	Missing []string `json:"missing,omitempty"`
	// RemovedBy are the processes that are known to have removed rules of the chains that lack some.
	RemovedBy []allocation.Remover `json:"removedBy,omitempty"`
	// Seconds is the time of all attempts and the pauses between them.
	Seconds float64 `json:"seconds"`
	// Pool is that of an event with the operation pool.
	Pool  string `json:"pool,omitempty"`
	Error string `json:"error,omitempty"`
}

// Took is Seconds as a duration.
func (e Event) Took() time.Duration { return time.Duration(e.Seconds * float64(time.Second)) }

// eventNames have the words for operations and their outcomes.
var eventNames = map[string]string{
	"attach done": "attached", "detach done": "detached", "cleanup done": "cleaned up", "repair done": "repaired",
	"retry failed": "attach retried", "detach done rollback": "rolled back", "detach done gc": "collected", "cleanup done gc": "collected",
	"lease done": "lease changed", "lease failed": "lease lost",
	"pool failed": "pool problem", "pool done": "pool recovered",
}

// Name is what happened, in words.
func (e Event) Name() string {
	plain := e.Operation + " " + e.Outcome
	return cmp.Or(eventNames[plain+" "+e.Reason], eventNames[plain], plain)
}

// EventQuery selects events. Empty fields select all.
type EventQuery struct {
	// Follow waits for new events. Default: the stream ends with the newest event.
	Follow bool
	// Allocation is an ID, or the first characters of an ID of Nomad.
	Allocation string
	Network    string
	// After is the index of the last event that the caller has.
	After uint64
}

// Values returns the query of the request.
func (q EventQuery) Values() url.Values {
	v := url.Values{}
	for key, value := range map[string]string{"allocation": q.Allocation, "network": q.Network} {
		if value != "" {
			v.Set(key, value)
		}
	}
	if q.Follow {
		v.Set("follow", "true")
	}
	if q.After > 0 {
		v.Set("after", strconv.FormatUint(q.After, 10))
	}
	return v
}
