// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package ui serves the status page of a host: read-only pages of what the agent's API answers.
//
// A page is for one person: each URL of Server.URL opens one session in one browser. Pages need
// no JavaScript; with it they follow the host.
package ui

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/internal/errdefs"
)

//go:embed static
var static embed.FS

// Config configures a Server. All fields are required.
type Config struct {
	Agent Agent
	// Host is the name of the host.
	Host string
	// Listener accepts the browser's connections. It is closed when Serve returns.
	Listener net.Listener
}

// Server serves the pages.
type Server struct {
	config   Config
	sessions sessions
	feed     *feed
	rates    rates
	// base begins the paths of all pages. Cookies are not bound to a port, but to a path: the
	// pages of another user of this host do not get the cookie, as they do not know it.
	base string
	now  func() time.Time
}

// New returns a server.
func New(c Config) *Server {
	return &Server{config: c, feed: newFeed(c.Agent), base: "/" + rand.Text() + "/", now: time.Now}
}

// URL returns a URL that opens the pages in one browser, once. It ends that of an earlier call.
func (s *Server) URL() string {
	return fmt.Sprintf("http://%s/?token=%s", s.config.Listener.Addr(), s.sessions.newToken())
}

// Serve answers requests until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go s.feed.run(ctx)
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }, // streams end with it
	}
	closed := context.AfterFunc(ctx, func() { _ = server.Close() }) // pages are only read
	defer closed()
	if err := server.Serve(s.config.Listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("status page: %w", err)
	}
	return nil
}

func (s *Server) handler() http.Handler {
	pages := http.NewServeMux()
	for path, page := range map[string]http.HandlerFunc{
		"/{$}":              s.page(s.overview),
		"/allocations":      s.page(s.allocations),
		"/allocations/{id}": s.page(s.allocation),
		"/map":              s.page(s.mapPage),
		"/map.svg":          s.mapImage,
		"/pools":            s.page(s.pools),
		"/cluster":          s.page(s.cluster),
		"/problems":         s.page(s.problems),
		"/events":           s.page(s.events),
		"/live":             s.live,
		"/": s.page(func(context.Context, *http.Request) (content, error) {
			return content{}, errdefs.New(errdefs.NotFound, "there is no such page")
		}),
	} {
		pages.HandleFunc(path, page)
	}
	mux := http.NewServeMux()
	files, err := fs.Sub(static, "static")
	if err != nil { // a name that is not valid
		panic(err)
	}
	mux.Handle("/static/", http.StripPrefix("/static", http.FileServerFS(files)))
	mux.Handle(s.base, http.StripPrefix(s.base[:len(s.base)-1], s.requireSession(pages)))
	mux.HandleFunc("/{$}", s.enter)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { s.render(w, http.StatusNotFound, "closed", 0, nil) })
	return guard(mux)
}

// enter spends a token. The answer is no redirect: after a link of another site, a browser
// would not send the cookie with it.
func (s *Server) enter(w http.ResponseWriter, r *http.Request) {
	session, ok := s.sessions.spend(r.URL.Query().Get("token"), s.now())
	if !ok {
		s.render(w, http.StatusForbidden, "closed", 0, nil)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: session, Path: s.base, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	s.render(w, http.StatusOK, "enter", 0, nil)
}

func (s *Server) requireSession(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.sessions.use(r, s.now()) {
			s.render(w, http.StatusForbidden, "closed", 0, nil)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Agent is what the pages show; agent/client.Client is one.
type Agent interface {
	Ready(ctx context.Context) error
	Allocations(ctx context.Context) ([]*api.Allocation, error)
	Allocation(ctx context.Context, id string) (*api.Allocation, error)
	Details(ctx context.Context, id string) (*api.Details, error)
	Networks(ctx context.Context) (*api.Networks, error)
	Pools(ctx context.Context) (*api.Pools, error)
	Leaks(ctx context.Context) (*api.Leaks, error)
	Repair(ctx context.Context) (*api.Repair, error)
	Denied(ctx context.Context) (*api.DeniedFlows, error)
	Map(ctx context.Context) (*api.Map, error)
	Cluster(ctx context.Context) (*api.Cluster, error)
	Events(ctx context.Context, q api.EventQuery) iter.Seq2[api.Event, error]
}

// hosts are the names under which a browser reaches this host itself. Another one is that of a
// page whose author has its name resolve to this host. The port can be that of a tunnel.
var hosts = []string{"127.0.0.1", "localhost", "::1"}

// policy allows the pages their own files, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

var headers = map[string]string{
	"Content-Security-Policy":      policy,
	"Cache-Control":                "no-store",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Referrer-Policy":              "no-referrer", // the path is known to this browser only
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
}

// guard refuses requests that the pages do not make.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		switch {
		case !isOwn(r.Host):
			http.Error(w, "this page is reached at 127.0.0.1 or localhost only", http.StatusMisdirectedRequest)
		case r.Method != http.MethodGet:
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "this page is read only: want GET", http.StatusMethodNotAllowed)
		case r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate":
			http.Error(w, "another site must not read this page", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isOwn tells whether the value of a Host header names this host itself.
func isOwn(value string) bool {
	host, _, err := net.SplitHostPort(value)
	if err != nil {
		host = value
	}
	return slices.Contains(hosts, host)
}
