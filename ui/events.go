// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/allocnet/allocnet/agent/api"
)

const eventsPerPage = 300

type event struct {
	api.Event
	// What is it in words, and Class how it is shown: good, bad or plain.
	What, Class string
	// Times is how often it happened in a row, the first time at First.
	Times int
	First time.Time
}

type eventsPage struct {
	Query  string
	Events []event
}

func (s *Server) events(_ context.Context, r *http.Request) (content, error) {
	query := r.URL.Query().Get("q")
	words := strings.Fields(strings.ToLower(query))
	found := s.feed.newest(eventsPerPage, func(e api.Event) bool {
		text := strings.ToLower(strings.Join([]string{e.Allocation, e.Namespace, e.Job, e.Task, strings.Join(e.Networks, " "), e.Interface, e.Caller, e.Error, e.Name()}, "\n"))
		for _, word := range words {
			if !strings.Contains(text, word) {
				return false
			}
		}
		return true
	})
	return content{"eventlog", "Events", eventsPage{query, eventsOf(found)}}, nil
}

// eventsOf describes events, the newest first. Those that are the same in a row are one.
func eventsOf(all []api.Event) []event {
	var named []event
	for _, e := range all {
		if last := len(named) - 1; last >= 0 && isRepeated(named[last].Event, e) {
			named[last].Times++
			named[last].First = e.Time
			continue
		}
		class := "plain"
		switch {
		case e.Outcome != "done":
			class = "bad"
		case e.Operation == "attach":
			class = "good"
		}
		named = append(named, event{e, e.Name(), class, 1, e.Time})
	}
	return named
}

// isRepeated tells whether two events differ in nothing but when they were, and how long they took.
func isRepeated(a, b api.Event) bool {
	a.Index, a.Time, a.Seconds = b.Index, b.Time, b.Seconds
	return reflect.DeepEqual(a, b)
}
