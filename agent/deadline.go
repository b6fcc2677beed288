// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"net/http"
	"time"
)

// deadlineWriter is an answer each part of which the client has to read in time: one that
// does not read must not keep its connection, of which there are not many.
type deadlineWriter struct {
	http.ResponseWriter
	limit time.Duration
}

func (w deadlineWriter) Write(part []byte) (int, error) {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.limit)) // the next error has the same cause
	return w.ResponseWriter.Write(part)
}

// Unwrap is for http.ResponseController.
func (w deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// withDeadline has clients read the answers of a handler in time.
func withDeadline(h http.Handler, limit time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(deadlineWriter{w, limit}, r)
	})
}
