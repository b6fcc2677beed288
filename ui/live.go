// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"fmt"
	"net/http"
	"time"
)

const (
	// gather is the least time between two messages of a stream.
	gather = time.Second
	// keepAlive is the most.
	keepAlive = 15 * time.Second
)

// live streams the version of what the pages show, so that a page loads itself when it is
// another one than its own. A stream ends with the session, and keeps it from being idle.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	connection := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	for s.sessions.use(r, s.now()) {
		version, changed := s.feed.next()
		if _, err := fmt.Fprintf(w, "data: %d\n\n", version); err != nil || connection.Flush() != nil {
			return
		}
		pause(r.Context(), gather)
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		case <-time.After(keepAlive):
		}
	}
}
