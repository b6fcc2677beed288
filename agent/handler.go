// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/internal/strictjson"
)

// route is the handler of one method of one path.
type route struct {
	// serve returns the body, which is sent as JSON; nil for an answer without one. A
	// *stream is sent as it comes, and an http.Handler answers by itself.
	serve func(r *http.Request) (any, error)
	// limited is whether the request counts against the limits of requests.
	limited bool
}

// routes is the API, by path and method; openapi.json describes it.
func (a *Agent) routes() map[string]map[string]route {
	_, details := a.engine.(detailer)
	return map[string]map[string]route{
		api.PathCNI:         {http.MethodPost: {a.postCNI, true}},
		api.PathAllocations: {http.MethodGet: {a.getAllocations, false}},
		api.PathAllocation: {
			http.MethodGet:    {a.getAllocation, false},
			http.MethodPut:    {a.putAllocation, true},
			http.MethodDelete: {bodiless(a.deleteAllocation), true},
		},
		api.PathDetails:     {http.MethodGet: {ofHost(details, a.getDetails), true}},
		api.PathAttachments: {http.MethodPost: {a.postAttachments, true}},
		api.PathAttachment:  {http.MethodDelete: {bodiless(a.deleteAttachment), true}},
		api.PathNetworks:    {http.MethodGet: {a.getNetworks, false}},
		api.PathPools:       {http.MethodGet: {ofHost(a.config.Pools != nil, a.getPools), false}},
		api.PathCluster:     {http.MethodGet: {ofHost(a.config.Cluster != nil, a.getCluster), false}},
		api.PathRepair:      {http.MethodGet: {ofHost(a.config.Repair != nil, a.getRepair), false}},
		api.PathLeaks:       {http.MethodGet: {ofHost(a.config.Leaks != nil, a.getLeaks), false}},
		api.PathDenied:      {http.MethodGet: {ofHost(a.config.Denied != nil, a.getDenied), false}},
		api.PathMap:         {http.MethodGet: {ofHost(a.config.Map != nil, a.getMap), true}},
		api.PathEvents:      {http.MethodGet: {bodiless(a.getEvents), false}},
		api.PathGC:          {http.MethodPost: {bodiless(a.postGC), true}},
		api.PathDescription: {http.MethodGet: {getDescription, false}},
		api.PathHealth:      {http.MethodGet: {getHealth, false}},
		api.PathReady:       {http.MethodGet: {a.getReady, false}},
	}
}

// handler answers requests on connections of Serve.
func (a *Agent) handler() http.Handler {
	mux := http.NewServeMux()
	for path, methods := range a.routes() {
		mux.Handle(path, a.handle(path, methods))
	}
	pages := map[string]http.Handler{api.PathMetrics: a.metrics.Handler()}
	if a.config.Pprof {
		for name, page := range map[string]http.HandlerFunc{"": pprof.Index, "profile": pprof.Profile, "trace": pprof.Trace, "symbol": pprof.Symbol} {
			pages["/debug/pprof/"+name] = page
		}
	}
	for path, page := range pages {
		mux.Handle(path, a.handle(path, map[string]route{http.MethodGet: {serve: func(*http.Request) (any, error) { return page, nil }}}))
	}
	mux.Handle("/", a.handle("other", nil))
	return withDeadline(mux, a.config.ReadTimeout)
}

// handle answers the methods of one path. A path without methods is unknown.
func (a *Agent) handle(path string, methods map[string]route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value, err := a.answer(w, r, path, methods)
		status := http.StatusOK
		switch {
		case err != nil:
			failure := errorOf(err)
			status = failure.Status
			value = failure
		case value == nil:
			status = http.StatusNoContent
		}
		a.metrics.request(path, r.Method, status)
		switch value := value.(type) {
		case *stream:
			value.send(w, a.log)
		case http.Handler:
			value.ServeHTTP(w, r)
		default:
			send(w, status, value)
		}
	})
}

func (a *Agent) answer(w http.ResponseWriter, r *http.Request, path string, methods map[string]route) (any, error) {
	if err := a.admit(w, r); err != nil {
		return nil, err
	}
	if methods == nil {
		return nil, noSuchRequest(http.StatusNotFound, "no path "+strconv.Quote(r.URL.Path))
	}
	route, ok := methods[r.Method]
	if !ok {
		allowed := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
		w.Header().Set("Allow", allowed)
		return nil, noSuchRequest(http.StatusMethodNotAllowed, fmt.Sprintf("no method %q for %s: want %s", r.Method, path, allowed))
	}
	r.Body = http.MaxBytesReader(w, r.Body, a.config.MaxBody)
	if !route.limited {
		return route.serve(r)
	}
	return a.serveLimited(r, route)
}

// serveLimited serves a request once it has a slot. It reads the body first: a slow
// client must not keep a slot.
func (a *Agent) serveLimited(r *http.Request, route route) (any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, decodingFailure(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err := a.gate.enter(); err != nil {
		return nil, err
	}
	defer a.gate.leave()
	ctx, stop := context.WithTimeoutCause(r.Context(), a.config.RequestTimeout, deadlineError(a.config.RequestTimeout))
	defer stop()
	release, err := a.limiter.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	started := time.Now()
	value, err := route.serve(r.WithContext(ctx))
	a.log.Info("request", "method", r.Method, "path", r.URL.Path, "took", time.Since(started).Round(time.Millisecond).String(), "error", err)
	return value, err
}

// admit refuses a request whose connection is not admitted, and closes it.
func (a *Agent) admit(w http.ResponseWriter, r *http.Request) error {
	c, err := connOf(r.Context())
	if err == nil && r.URL.Path != api.PathHealth { // a busy agent is alive: its watchdog must not end it
		err = c.checkLimit()
	}
	if err == nil {
		err = c.admit(a.config.Access)
	}
	if err != nil {
		w.Header().Set("Connection", "close")
	}
	return err
}

func send(w http.ResponseWriter, status int, value any) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if value == nil {
		w.WriteHeader(status)
		return
	}
	data, whole := value.(printed)
	if !whole {
		encoded, err := json.Marshal(value)
		if err != nil { // a result that is not JSON, which libcni would have refused
			status, encoded = http.StatusInternalServerError, []byte(`{"cniVersion":"1.1.0","code":999,"msg":"the answer cannot be encoded"}`)
		}
		data = append(encoded, '\n')
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data))) // a reader knows whether it has all
	w.WriteHeader(status)
	_, _ = w.Write(data) // the client has disconnected
}

// read decodes the body of a request: one JSON value without unknown keys.
func read(r *http.Request, target any) error {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return decodingFailure(err)
	}
	if err := (strictjson.Text{Path: "body", Line: 1, Data: data}).Decode(target); err != nil {
		return decodingFailure(err)
	}
	return nil
}

// bodiless refuses a request with a body. It also reads to the end, without which net/http does
// not notice that the client disconnects.
func bodiless(serve func(*http.Request) (any, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		var one [1]byte
		if _, err := io.ReadFull(r.Body, one[:]); !errors.Is(err, io.EOF) {
			return nil, decodingFailure(errors.New("want no body"))
		}
		return serve(r)
	}
}

// ofHost serves what only an agent knows that manages the networks of its host.
func ofHost(known bool, serve func(*http.Request) (any, error)) func(*http.Request) (any, error) {
	return bodiless(func(r *http.Request) (any, error) {
		if !known {
			return nil, unsupported("the networks of this agent's host are managed elsewhere")
		}
		return serve(r)
	})
}
