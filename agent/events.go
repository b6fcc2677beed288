// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/event"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/state"
)

// EventLog has the events of the host.
type EventLog interface {
	// Events yields the events that the filter selects, the oldest first; with follow
	// then new ones, until ctx ends.
	Events(ctx context.Context, f event.Filter, follow bool) iter.Seq2[event.Event, error]
}

// maxFollowers bounds the requests that follow events: each keeps a connection.
const maxFollowers = 16

// stream is an answer that is sent line by line, as its values come.
type stream struct {
	events iter.Seq2[event.Event, error]
	// end releases what the request holds.
	end func()
}

func (a *Agent) getEvents(r *http.Request) (any, error) {
	filter, follow, err := eventFilter(r.URL.Query())
	if err != nil {
		return nil, err
	}
	if a.config.Events == nil {
		return nil, unsupported("this agent keeps no events")
	}
	if !follow {
		return &stream{a.config.Events.Events(r.Context(), filter, false), func() {}}, nil
	}
	select {
	case a.followers <- struct{}{}:
	default:
		return nil, tryAgainLater(fmt.Sprintf("%d clients follow the events, which is the limit", maxFollowers))
	}
	ctx, cancel := context.WithCancel(r.Context())
	keep := context.AfterFunc(a.stopping, cancel)
	return &stream{a.config.Events.Events(ctx, filter, true), func() {
		keep()
		cancel()
		<-a.followers
	}}, nil
}

// eventFilter reads a query.
func eventFilter(query url.Values) (f event.Filter, follow bool, err error) {
	f.Allocation, f.Network = query.Get("allocation"), query.Get("network")
	if f.Allocation != "" {
		if err := state.ValidateID(f.Allocation); err != nil {
			return f, false, err
		}
	}
	if text := query.Get("after"); text != "" {
		if f.After, err = strconv.ParseUint(text, 10, 64); err != nil {
			return f, false, &hook.RequestError{Field: "after", Value: text, Reason: "want the index of an event, such as 42"}
		}
	}
	if text := query.Get("follow"); text != "" {
		if follow, err = strconv.ParseBool(text); err != nil {
			return f, false, &hook.RequestError{Field: "follow", Value: text, Reason: "want true or false"}
		}
	}
	return f, follow, nil
}

// send sends an answer until it ends, or the client disconnects. After an error the
// client must not take the answer for complete.
func (s *stream) send(w http.ResponseWriter, log hclog.Logger) {
	defer s.end()
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Time{}) // that of the request would end the answer
	w.Header().Set("Content-Type", api.ContentEvents)
	w.WriteHeader(http.StatusOK)
	_ = connection.Flush() // a client that is gone shows at the next line
	encoder := json.NewEncoder(w)
	for e, err := range s.events {
		if err != nil {
			log.Warn("the events cannot be read", "error", err)
			panic(http.ErrAbortHandler)
		}
		if encoder.Encode(e) != nil || connection.Flush() != nil {
			return
		}
	}
}
