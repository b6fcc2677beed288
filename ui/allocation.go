// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/allocnet/allocnet/agent/api"
)

// eventsPerAllocation is the most that its page shows.
const eventsPerAllocation = 50

// allocationPage is what the page of one allocation shows.
type allocationPage struct {
	*api.Allocation
	Problems []problem
	Events   []event
}

func (s *Server) allocation(ctx context.Context, r *http.Request) (content, error) {
	a, err := s.config.Agent.Allocation(ctx, r.PathValue("id"))
	if err != nil {
		return content{}, err
	}
	h := &host{Repair: ask(ctx, s.config.Agent.Repair)}
	p := allocationPage{Allocation: a, Problems: slices.Concat(ofAllocation(a), h.unread(), h.ofRepair(func(id string) bool { return id == a.ID }))}
	p.Events = eventsOf(s.feed.newest(eventsPerAllocation, func(e api.Event) bool { return e.Allocation == a.ID }))
	return content{"allocation", short(a.ID), p}, nil
}

// indented is JSON for people.
func indented(data json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, data, "", "  ") != nil {
		return string(data)
	}
	return out.String()
}
