// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"context"
	"net/http"
	"strings"

	"github.com/allocnet/allocnet/agent/api"
)

const eventsPerPage = 300

type event struct {
	api.Event
	// What is it in words, and Class how it is shown: good, bad or plain.
	What, Class string
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

func eventsOf(all []api.Event) []event {
	named := make([]event, len(all))
	for i, e := range all {
		named[i] = event{e, e.Name(), "plain"}
		switch {
		case e.Outcome != "done":
			named[i].Class = "bad"
		case e.Operation == "attach":
			named[i].Class = "good"
		}
	}
	return named
}
