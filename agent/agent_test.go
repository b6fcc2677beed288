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
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/state"
)

// scripted is an engine with the answers of a test.
type scripted struct {
	setup    func(ctx context.Context, r hook.Request) (*hook.Allocation, error)
	teardown func(ctx context.Context, id string) error
	list     []error
	gc       error
}

func (e *scripted) Setup(ctx context.Context, r hook.Request) (*hook.Allocation, error) {
	if e.setup != nil {
		return e.setup(ctx, r)
	}
	return &hook.Allocation{ID: r.ID, Attachments: []hook.Attachment{{Network: "web", Interface: "eth0", Phase: state.Attached}}}, nil
}

func (e *scripted) Teardown(ctx context.Context, id string) error {
	if e.teardown != nil {
		return e.teardown(ctx, id)
	}
	return nil
}

func (e *scripted) Check(context.Context, string) ([]hook.Checked, error) { return nil, nil }

func (e *scripted) Status(_ context.Context, id string) (*hook.Allocation, error) {
	if id == "known" {
		return &hook.Allocation{ID: id}, nil
	}
	if err := state.ValidateID(id); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("allocation %s %w", id, state.ErrNotFound)
}

func (e *scripted) Details(ctx context.Context, id string) ([]hook.Details, error) {
	if _, err := e.Status(ctx, id); err != nil {
		return nil, err
	}
	return []hook.Details{{
		Network: "web", Interface: "eth0", ContainerID: id, Executor: state.InProcess, CNIVersion: "1.0.0", Plugins: []string{"bridge"}, Updated: time.Unix(1, 0).UTC(),
		Rules:  []hook.Rule{{Program: "nft", Table: "ip a", Chain: "b", Rule: "c", Present: true}},
		Leases: []hook.Lease{{Address: netip.MustParseAddr("10.0.0.2"), Plugin: "host-local", Pool: "web", Block: netip.MustParsePrefix("10.0.0.0/26"), Since: time.Unix(1, 0).UTC(), Expires: time.Unix(2, 0).UTC(), Problem: "d"}}, RulesError: "e", Traffic: &allocation.Traffic{ReceivedBytes: 1, SentBytes: 2},
	}}, nil
}

func (e *scripted) GC(context.Context, hook.GCRequest) (*hook.Collected, error) {
	return &hook.Collected{TornDown: []string{"a"}}, e.gc
}

func (e *scripted) List(context.Context) iter.Seq2[*hook.Allocation, error] {
	return func(yield func(*hook.Allocation, error) bool) {
		for _, err := range e.list {
			if !yield(nil, err) {
				return
			}
		}
		yield(&hook.Allocation{ID: "known", Attachments: []hook.Attachment{{Network: "web", Phase: state.Attached}}}, nil)
	}
}

func (e *scripted) Current(a *hook.Allocation) *hook.Allocation { return a }

func (e *scripted) Ready(context.Context, *cniconf.Network) error { return hook.ErrNoStatus }

func (e *scripted) Extend(_ context.Context, r hook.Request) (*hook.Allocation, error) {
	return &hook.Allocation{ID: r.ID, Attachments: []hook.Attachment{{Network: r.Networks[0].Name, Phase: state.Attached}}}, nil
}

func (e *scripted) Detach(_ context.Context, id, iface string) error {
	switch iface {
	case "none":
		return &hook.NotAttachedError{Allocation: id, Interface: iface}
	case "eth0":
		return &hook.RequestError{Field: "interface", Value: iface, Reason: "is the primary"}
	}
	return nil
}

// built is a CNI that refuses with the caller's build.
type built struct{}

func (built) Call(_ context.Context, call api.CNI) ([]byte, error) {
	return nil, unsupported(call.Build)
}

// TestBuildOfCaller: the build comes in a header, which an agent that does not know it ignores.
func TestBuildOfCaller(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, api.PathCNI, strings.NewReader(`{"env": {"CNI_COMMAND": "DEL"}, "config": {}}`))
	r.Header.Set(api.HeaderBuild, "0.0.9 a")
	if _, err := New(Config{CNI: built{}}, &scripted{}).postCNI(r); err == nil || !strings.Contains(err.Error(), "0.0.9 a") {
		t.Error(err)
	}
}

// echo is a CNI that returns its configuration.
type echo struct{}

func (echo) Call(_ context.Context, call api.CNI) ([]byte, error) {
	if call.Env["CNI_COMMAND"] == "DEL" {
		return nil, nil
	}
	return call.Config, nil
}

// running is an agent that serves on a socket of its own.
type running struct {
	t      *testing.T
	agent  *Agent
	socket string
	client *client.Client
	http   *http.Client
	router routers.Router
	stop   context.CancelFunc
	ended  chan error
}

func start(t *testing.T, c Config, e Engine) *running {
	t.Helper()
	dir := t.TempDir()
	conf, plugins := filepath.Join(dir, "conf"), filepath.Join(dir, "plugins")
	for path, text := range map[string]string{
		conf + "/10-web.conflist":  `{"cniVersion": "1.0.0", "name": "web", "plugins": [{"type": "p", "ipam": {"type": "host-local", "subnet": "10.1.0.0/24"}}]}`,
		conf + "/20-gone.conflist": `{"cniVersion": "1.0.0", "name": "gone", "plugins": [{"type": "missing"}]}`,
		conf + "/30-bad.conflist":  `{`,
		plugins + "/p":             "", plugins + "/host-local": "",
	} {
		write(t, path, text)
	}
	c.ConfDirs, c.PluginDirs = []string{conf}, []string{plugins}
	r := &running{t: t, agent: New(c, e), socket: dir + "/run/agent.sock", ended: make(chan error, 1)}
	l, err := Listen(r.socket, c.Access)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.ended <- r.agent.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		<-r.ended
	})
	r.client, r.http, r.router = client.New(r.socket), httpClient(r.socket), router(t)
	return r
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

func httpClient(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
}

func router(t *testing.T) routers.Router {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(api.Description)
	if err == nil {
		err = doc.Validate(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// exchange makes a request, and holds the answer to the description.
func (r *running) exchange(method, path, body string) (int, http.Header, string) {
	r.t.Helper()
	request, err := http.NewRequest(method, "http://agent"+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	response, err := r.http.Do(request)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	r.describes(request, response, data)
	return response.StatusCode, response.Header, string(data)
}

func (r *running) describes(request *http.Request, response *http.Response, body []byte) {
	r.t.Helper()
	described, params, err := r.router.FindRoute(request)
	if err != nil {
		return // no path of the API; its error object is looked at by the caller
	}
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: request, PathParams: params, Route: described},
		Status:                 response.StatusCode, Header: response.Header, Body: io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
	if err != nil {
		r.t.Errorf("the answer to %s %s is not as openapi.json says: %v\n%s", request.Method, request.URL.Path, err, body)
	}
}

// TestDescriptionHasEveryRoute holds openapi.json and the handlers to each
// other; exchange holds the answers to it.
func TestDescriptionHasEveryRoute(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(api.Description)
	if err != nil {
		t.Fatal(err)
	}
	routes := New(Config{}, &scripted{}).routes()
	for path, methods := range routes {
		for method := range methods {
			if item := doc.Paths.Value(path); item == nil || item.GetOperation(method) == nil {
				t.Errorf("%s %s is not described", method, path)
			}
		}
	}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			if _, ok := routes[path][method]; !ok {
				t.Errorf("%s %s is described, but not served", method, path)
			}
		}
	}
}

func TestAnswers(t *testing.T) {
	failing := &scripted{setup: func(_ context.Context, r hook.Request) (*hook.Allocation, error) {
		switch r.ID {
		case "conflict":
			return nil, fmt.Errorf("allocation x %w", hook.ErrConflict)
		case "unknown":
			return nil, &cniconf.NotFoundError{Name: "x"}
		case "plugin":
			return nil, &hook.Error{Op: "attach", Err: &types.Error{Code: 137, Msg: "no fabric"}}
		case "broken":
			return nil, errors.New("disk full")
		}
		return (&scripted{}).Setup(context.Background(), r)
	}}
	r := start(t, Config{MaxBody: 4096, CNI: echo{}}, failing)
	const add, del = `{"CNI_COMMAND": "ADD"}`, `{"CNI_COMMAND": "DEL"}`
	for _, test := range []struct {
		request, body string
		status        int
		code          int
		words         string
	}{
		{"GET /v1/allocations", "", 200, 0, `"id":"known"`},
		{"GET /v1/allocations?prefix=kn", "", 200, 0, `"id":"known"`},
		{"GET /v1/allocations?prefix=now", "", 200, 0, `[]`},
		{"GET /v1/allocations/known", "", 200, 0, `"id":"known"`},
		{"GET /v1/allocations/none", "", 404, 3, "none is not set up here"},
		{"GET /v1/allocations/%2e%2e", "", 422, 7, `allocation ID`},
		{"PUT /v1/allocations/a", `{"networks": "storage,mgmt@net5"}`, 200, 0, `"phase":"attached"`},
		{"PUT /v1/allocations/a", `{"primary": {"name": "web"}, "networks": [{"name": "b", "interface": "x"}]}`, 200, 0, "eth0"},
		{"PUT /v1/allocations/a", `{"primary": "web,web2"}`, 422, 7, "want one network"},
		{"PUT /v1/allocations/a", `{"networks": "a,,b"}`, 422, 7, "networks[1]"},
		{"PUT /v1/allocations/a", `{"networks": [{"name": "../x"}]}`, 422, 7, "networks[0].name"},
		{"PUT /v1/allocations/a", `{"network": "a"}`, 400, 6, `unknown field`},
		{"PUT /v1/allocations/a", "{\n\"netns\": 5}", 400, 6, `body:2:10: Setup.netns is a JSON number, want string`},
		{"PUT /v1/allocations/a", "{\n\"netns\" 5}", 400, 6, `body:2:9: invalid JSON`},
		{"PUT /v1/allocations/a", `{} {}`, 400, 6, "nothing after it"},
		{"PUT /v1/allocations/a", `{`, 400, 6, "cannot be read"},
		{"PUT /v1/allocations/a", ``, 400, 6, "cannot be read"},
		{"PUT /v1/allocations/a", `{"netns": "` + strings.Repeat("x", 5000) + `"}`, 413, 6, "4096 bytes"},
		{"PUT /v1/allocations/conflict", `{}`, 409, 101, "different request"},
		{"PUT /v1/allocations/unknown", `{}`, 422, 7, "unknown network"},
		{"PUT /v1/allocations/plugin", `{}`, 500, 137, "no fabric"},
		{"PUT /v1/allocations/broken", `{}`, 500, 999, "disk full"},
		{"DELETE /v1/allocations/a", "", 204, 0, ""},
		{"DELETE /v1/allocations/a", "x", 400, 6, "want no body"},
		{"POST /v1/allocations/a/attachments", `{"networks": "storage"}`, 200, 0, "storage"},
		{"POST /v1/allocations/a/attachments", `{"networks": []}`, 422, 7, "want at least one"},
		{"POST /v1/allocations/a/attachments", `{}`, 422, 7, "want at least one"},
		{"POST /v1/allocations/a/attachments", `{"networks": "a,,b"}`, 422, 7, "networks[1]"},
		{"POST /v1/allocations/%2e%2e/attachments", `{"networks": "storage"}`, 422, 7, "allocation ID"},
		{"DELETE /v1/allocations/a/attachments/net1", "", 204, 0, ""},
		{"DELETE /v1/allocations/a/attachments/none", "", 204, 0, ""},
		{"DELETE /v1/allocations/a/attachments/eth0", "", 422, 7, "primary"},
		{"DELETE /v1/allocations/%2e%2e/attachments/net1", "", 422, 7, "allocation ID"},
		{"DELETE /v1/allocations/a/attachments/net1", "x", 400, 6, "want no body"},
		{"GET /v1/allocations/a/attachments", "", 405, 100, "want POST"},
		{"GET /v1/allocations/known/details", "", 200, 0, `"present":true`},
		{"GET /v1/allocations/a/details", "", 404, 3, "not set up"},
		{"GET /v1/allocations/known/details", "{}", 400, 6, ""},
		{"POST /v1/cni", `{"env": ` + add + `, "config": {"a": 1}}`, 200, 0, `{"a": 1}`},
		{"POST /v1/cni", `{"env": ` + del + `, "config": {}}`, 204, 0, ""},
		{"POST /v1/cni", `{"env": {"LD_PRELOAD": "x"}, "config": {}}`, 422, 4, "LD_PRELOAD"},
		{"POST /v1/cni", `{"env": {}, "config": {}}`, 422, 4, "CNI_COMMAND is missing"},
		{"POST /v1/gc", "", 200, 0, `"tornDown":["a"]`},
		{"GET /v1/networks", "", 200, 0, `"missing\" is not installed`},
		{"GET /v1/networks", "", 200, 0, `"usage":[{"family":"ipv4","used":0,"total":253}]`},
		{"GET /v1/openapi.json", "", 200, 0, `"openapi"`},
		{"GET /healthz", "", 200, 0, "alive"},
		{"GET /readyz", "", 200, 0, "ready"},
		{"GET /", "", 404, 100, `no path`},
		{"GET /v2/allocations", "", 404, 100, `no path`},
		{"POST /healthz", "", 405, 100, "want GET"},
		{"PATCH /v1/allocations/a", "{}", 405, 100, "want DELETE, GET, PUT"},
		{"POST /metrics", "", 405, 100, "want GET"},
		{"GET /debug/pprof/", "", 404, 100, "no path"},
	} {
		t.Run(test.request+" "+test.body[:min(len(test.body), 40)], func(t *testing.T) {
			r := *r
			r.t = t
			method, path, _ := strings.Cut(test.request, " ")
			status, header, body := r.exchange(method, path, test.body)
			var failure api.Error
			if test.code != 0 && (json.Unmarshal([]byte(body), &failure) != nil || failure.CNIVersion == "") {
				t.Errorf("no CNI error: %s", body)
			}
			if status != test.status || int(failure.Code) != test.code || !strings.Contains(body, test.words) {
				t.Errorf("status %d, code %d, want %d and %d with %q:\n%s", status, failure.Code, test.status, test.code, test.words, body)
			}
			if status == http.StatusMethodNotAllowed && header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
		})
	}
	for labels, want := range map[[3]string]float64{
		{"other", "404", "GET"}: 3, {api.PathAllocation, "405", "other"}: 1, {api.PathAllocation, "409", "PUT"}: 1, {api.PathMetrics, "405", "POST"}: 1,
	} {
		if got := testutil.ToFloat64(r.agent.metrics.requests.WithLabelValues(labels[:]...)); got != want {
			t.Errorf("%v were counted %v times, want %v", labels, got, want)
		}
	}
}

// TestUnreadableRecord: an allocation that cannot be read is listed with its
// error among the others, and does not keep the agent from being ready.
func TestUnreadableRecord(t *testing.T) {
	r := start(t, Config{}, &scripted{list: []error{&state.UnreadableError{ID: "newer", Err: &state.VersionError{Path: "/x/journal", Version: 99}}}})
	if status, _, body := r.exchange("GET", "/v1/allocations", ""); status != http.StatusOK {
		t.Fatalf("list: %d %s", status, body)
	}
	all, err := r.client.Allocations(context.Background())
	if err != nil || len(all) != 2 {
		t.Fatalf("%d allocations, %v", len(all), err)
	}
	if all[0].ID != "newer" || !strings.Contains(all[0].Error, "format version 99") || all[1].ID != "known" || all[1].Error != "" {
		t.Errorf("listed: %+v, %+v", all[0], all[1])
	}
	if err := r.client.Ready(context.Background()); err != nil {
		t.Errorf("ready: %v", err)
	}
}

func TestNotSupported(t *testing.T) {
	r := start(t, Config{Pprof: true}, struct{ Engine }{&scripted{}}) // hides Attach
	for request, body := range map[string]string{
		"POST /v1/allocations/a/attachments":        `{"networks": "storage"}`,
		"DELETE /v1/allocations/a/attachments/net1": "",
		"POST /v1/cni":                      `{"env": {"CNI_COMMAND": "ADD"}, "config": {}}`,
		"GET /v1/allocations/known/details": "",
	} {
		method, path, _ := strings.Cut(request, " ")
		if status, _, answer := r.exchange(method, path, body); status != http.StatusNotImplemented || !strings.Contains(answer, `"code":2`) {
			t.Errorf("%s: %d %s", request, status, answer)
		}
	}
	if status, _, answer := r.exchange("GET", "/debug/pprof/", ""); status != http.StatusOK || !strings.Contains(answer, "goroutine") {
		t.Errorf("pprof: %d %s", status, answer)
	}
}

// blocking is an engine whose Setup reports that it began, and waits.
func blocking() (e *scripted, began chan string, release chan struct{}) {
	began, release = make(chan string, 8), make(chan struct{})
	return &scripted{setup: func(ctx context.Context, r hook.Request) (*hook.Allocation, error) {
		began <- r.ID
		select {
		case <-release:
			return &hook.Allocation{ID: r.ID}, nil
		case <-ctx.Done():
			began <- "undone"
			return nil, context.Cause(ctx)
		}
	}}, began, release
}

func (r *running) setup(id string) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := r.client.Setup(context.Background(), id, api.Setup{})
		done <- err
	}()
	return done
}

func TestRequestLimit(t *testing.T) {
	e, began, release := blocking()
	r := start(t, Config{MaxRequests: 1}, e)
	first := r.setup("a")
	<-began
	status, header, body := r.exchange("PUT", "/v1/allocations/b", `{}`)
	if status != 503 || header.Get("Retry-After") == "" || !strings.Contains(body, `"code":11`) {
		t.Errorf("the second request: %d %v %s", status, header, body)
	}
	if status, _, _ := r.exchange("GET", "/v1/allocations", ""); status != 200 {
		t.Errorf("what only reads is refused: %d", status)
	}
	second := r.setup("b") // the client retries until a request ends
	close(release)
	for _, done := range []chan error{first, second} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestConnectionLimit(t *testing.T) {
	r := start(t, Config{MaxConnections: 1}, &scripted{})
	held, err := net.Dial("unix", r.socket)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/allocations", "/metrics"} {
		if status, _, body := r.exchange("GET", path, ""); status != 503 || !strings.Contains(body, "1 connections are open") {
			t.Errorf("%s beside a silent connection: %d %s", path, status, body)
		}
	}
	if status, _, body := r.exchange("GET", "/healthz", ""); status != 200 {
		t.Errorf("the watchdog of a busy agent gets %d %s", status, body)
	}
	_ = held.Close()
	if _, err := r.client.Allocations(context.Background()); err != nil {
		t.Errorf("after it was closed: %v", err)
	}
}

// TestRequestTimeout: a request that would never end ends.
func TestRequestTimeout(t *testing.T) {
	slow := &scripted{setup: func(ctx context.Context, _ hook.Request) (*hook.Allocation, error) {
		<-ctx.Done()
		return nil, fmt.Errorf("cancelled: %w", context.Cause(ctx))
	}}
	r := start(t, Config{RequestTimeout: 200 * time.Millisecond}, slow)
	status, _, body := r.exchange("PUT", "/v1/allocations/slow", `{}`)
	if status != 504 || !strings.Contains(body, `"code":11`) || !strings.Contains(body, "longer than 200ms") {
		t.Errorf("%d %s", status, body)
	}
}

func TestSlowAndMalformedClients(t *testing.T) {
	r := start(t, Config{HeaderTimeout: 250 * time.Millisecond, ReadTimeout: 500 * time.Millisecond}, &scripted{})
	for name, test := range map[string]struct{ send, want string }{
		"says nothing":       {"", ""},
		"half a header":      {"GET /healthz HTTP/1.1\r\nHost:", ""},
		"half a body":        {"PUT /v1/allocations/a HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{", "400 Bad Request"},
		"no HTTP":            {"hello\r\n\r\n", "400 Bad Request"},
		"header of 100 KB":   {"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n", "431 "},
		"body of wrong size": {"PUT /v1/allocations/a HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", "400 Bad Request"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("unix", r.socket)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, _ = io.WriteString(c, test.send) // the agent may close the connection early
			answer, _ := io.ReadAll(c)          // until the agent hangs up
			if !strings.Contains(string(answer), test.want) {
				t.Errorf("answer %q, want %q", answer, test.want)
			}
		})
	}
	if _, err := r.client.Allocations(context.Background()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestClientDoesNotRead: the agent hangs up on one who does not read its answer.
func TestClientDoesNotRead(t *testing.T) {
	large := errors.New(strings.Repeat("x", 4<<20)) // more than the kernel keeps for a reader
	metrics := NewMetrics(prometheus.NewRegistry())
	metrics.Observe(hook.Observation{Op: hook.OpAttach, Network: large.Error()})
	r := start(t, Config{ReadTimeout: 100 * time.Millisecond, Metrics: metrics}, &scripted{list: []error{&state.UnreadableError{ID: "a", Err: large}}})
	for _, path := range []string{"/v1/allocations", "/metrics"} {
		t.Run(path, func(t *testing.T) {
			c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: r.socket})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			file, err := c.File()
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			hungUp := []unix.PollFd{{Fd: int32(file.Fd())}}
			if n, err := unix.Poll(hungUp, 20_000); n != 1 || hungUp[0].Revents&unix.POLLHUP == 0 {
				t.Errorf("the agent holds the connection: %d, %v", n, err)
			}
		})
	}
}

func TestClientDisconnects(t *testing.T) {
	e, began, _ := blocking()
	var torn error
	down := make(chan struct{})
	e.teardown = func(ctx context.Context, _ string) error {
		began <- "teardown"
		<-down
		torn = ctx.Err()
		began <- "torn"
		return nil
	}
	r := start(t, Config{}, e)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-began
		cancel()
	}()
	if _, err := r.client.Setup(ctx, "a", api.Setup{}); !errors.Is(err, context.Canceled) {
		t.Errorf("the client got %v", err)
	}
	if got := <-began; got != "undone" {
		t.Errorf("the set-up was not undone: %s", got)
	}
	ctx, cancel = context.WithCancel(context.Background())
	go func() {
		<-began
		cancel()
	}()
	if err := r.client.Teardown(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("the client got %v", err)
	}
	close(down)
	if <-began; torn != nil {
		t.Errorf("the teardown was interrupted: %v", torn)
	}
}

func TestGracefulStop(t *testing.T) {
	e, began, release := blocking()
	r := start(t, Config{}, e)
	first := r.setup("a")
	<-began
	r.stop()
	for !r.agent.gate.isClosed() {
		time.Sleep(time.Millisecond)
	}
	for path, want := range map[string]string{"/readyz": "the agent is stopping", "/healthz": "alive"} {
		if _, _, body := r.exchange("GET", path, ""); !strings.Contains(body, want) {
			t.Errorf("%s while stopping: %s", path, body)
		}
	}
	if status, _, body := r.exchange("PUT", "/v1/allocations/b", `{}`); status != 503 || !strings.Contains(body, `"code":11`) {
		t.Errorf("new work while stopping: %d %s", status, body)
	}
	close(release)
	if err := <-first; err != nil {
		t.Errorf("the request in flight: %v", err)
	}
	if err := <-r.ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
	r.ended <- nil
	if _, err := os.Lstat(r.socket); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	if _, err := r.client.Allocations(context.Background()); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("the client says %v", err)
	}
}

func TestStopUndoesHungRequests(t *testing.T) {
	e, began, _ := blocking()
	r := start(t, Config{DrainTimeout: 10 * time.Millisecond}, e)
	answers := make(chan string, 1)
	go func() {
		status, _, body := r.exchange("PUT", "/v1/allocations/a", `{}`)
		answers <- fmt.Sprint(status, " ", body)
	}()
	<-began
	r.stop()
	if got := <-began; got != "undone" {
		t.Errorf("it was not undone: %s", got)
	}
	if got := <-answers; !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "the agent is stopping") {
		t.Errorf("the client got %s", got)
	}
}

func TestNotReady(t *testing.T) {
	e := &scripted{list: []error{errors.New("disk on fire")}}
	r := start(t, Config{Ready: func() []string { return []string{"no primary network"} }}, e)
	_ = os.RemoveAll(r.agent.config.PluginDirs[0])
	status, _, body := r.exchange("GET", "/readyz", "")
	for _, word := range []string{`"code":50`, "disk on fire", "no primary network", "is not installed"} {
		if status != 503 || !strings.Contains(body, word) {
			t.Errorf("%d, want 503 with %q: %s", status, word, body)
		}
	}
}

// many is an engine with allocations without end, which counts those that are read.
type many struct {
	scripted
	read int
}

func (m *many) List(context.Context) iter.Seq2[*hook.Allocation, error] {
	return func(yield func(*hook.Allocation, error) bool) {
		for m.read = 1; yield(&hook.Allocation{ID: "known"}, nil); m.read++ {
		}
	}
}

// TestReadyWithManyAllocations: whether the agent is ready does not depend on how many allocations there are.
func TestReadyWithManyAllocations(t *testing.T) {
	m := &many{}
	if problems := New(Config{HostNetwork: true}, m).problems(t.Context()); len(problems) > 0 || m.read != 1 {
		t.Errorf("problems are %q, and %d records are read: want none, and 1", problems, m.read)
	}
}

// TestHostNetwork: an agent without CNI networks offers none, and is ready.
func TestHostNetwork(t *testing.T) {
	r := start(t, Config{HostNetwork: true}, &scripted{})
	for path, want := range map[string]string{
		"/readyz": `{"status":"ready"}`, "/v1/networks": `{"networks":[],"broken":[]}`,
	} {
		if status, _, body := r.exchange("GET", path, ""); status != http.StatusOK || strings.TrimSpace(body) != want {
			t.Errorf("%s: %d %s, want %s", path, status, body, want)
		}
	}
	if _, _, body := r.exchange("GET", "/metrics", ""); strings.Contains(body, "allocnet_pool_addresses{") {
		t.Error("the metrics have pools of networks")
	}
}

func TestMetrics(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	m.Observe(hook.Observation{Op: "attach", Network: "web", Attempts: 3, Took: time.Second, Err: errors.New("x")})
	m.Observe(hook.Observation{Op: "cleanup", Network: "web", Attempts: 1})
	m.Reloaded(nil)
	r := start(t, Config{Metrics: m, CNI: echo{}}, &scripted{})
	for _, verb := range []string{"ADD", "DEL", "x"} {
		r.exchange("POST", "/v1/cni", `{"env": {"CNI_COMMAND": "`+verb+`"}, "config": {}}`)
	}
	_, _, body := r.exchange("GET", "/metrics", "")
	for _, line := range []string{
		`allocnet_operation_duration_seconds_count{network="web",operation="attach",outcome="failed"} 1`,
		`allocnet_retries_total{network="web",operation="attach"} 2`,
		`allocnet_cni_call_duration_seconds_count{outcome="done",verb="ADD"} 1`,
		`allocnet_cni_call_duration_seconds_count{outcome="done",verb="DEL"} 1`,
		`allocnet_cni_call_duration_seconds_count{outcome="done",verb="other"} 1`,
		`allocnet_forced_cleanups_total{network="web",outcome="done"} 1`,
		`allocnet_config_reloads_total{outcome="done"} 1`,
		`allocnet_attachments{network="web",phase="attached"} 1`,
		`allocnet_pool_addresses{family="ipv4",network="web"} 253`,
		`allocnet_pool_addresses_used{family="ipv4",network="web"} 0`,
		`allocnet_invalid_network_files 1`,
		`allocnet_requests_total{code="200",handler="/metrics",method="GET"} 1`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("no line %s in\n%s", line, body)
		}
	}
}
