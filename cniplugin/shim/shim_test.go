// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package shim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/internal/version"
)

// config is a plugin configuration without a key agent.
const config = `{"cniVersion": "1.0.0",
	"name": "multi", "type": "allocnet-cni"}`

// delegatedTo returns a configuration that delegates calls.
func delegatedTo(socket, mode string) string {
	return strings.Replace(config, "}", `, "timeout": "3s", "agent": {"socket": "`+socket+`", "mode": "`+mode+`"}}`, 1)
}

// listen returns a socket and its path.
func listen(t *testing.T) (net.Listener, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, path
}

// serve answers each call on a socket, and returns the socket's path.
func serve(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	l, path := listen(t)
	server := &http.Server{Handler: handle}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return path
}

// answering is an agent with one answer.
func answering(t *testing.T, status int, body string) string {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if status != http.StatusForbidden {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// exchanged is what a program did.
type exchanged struct {
	code    int
	printed string
	// became is whether the engine is to do it, with stdin and a refusal, nil for none.
	became  bool
	stdin   string
	refusal *Refusal
}

// call makes a call with a verb and a configuration.
func call(t *testing.T, command, config string) exchanged {
	t.Helper()
	env := map[string]string{"CNI_COMMAND": command, "CNI_CONTAINERID": "a1", "CNI_NETNS": "/run/netns/a1", "CNI_ARGS": "a=b;ü=\"", "OTHER": "x"}
	var out bytes.Buffer
	var did exchanged
	p := Program{Getenv: func(name string) string { return env[name] }, Stdin: strings.NewReader(config), Stdout: &out, Become: func(stdin []byte, arguments ...string) error {
		did.became, did.stdin = true, string(stdin)
		if len(arguments) > 0 {
			if err := json.Unmarshal([]byte(arguments[1]), &did.refusal); err != nil || arguments[0] != Instead || len(arguments) != 2 {
				t.Errorf("%q, %v", arguments, err)
			}
		}
		return errors.New("no engine")
	}}
	did.code, did.printed = p.Run(), out.String()
	return did
}

// TestConstants: what is repeated of package api is as there.
func TestConstants(t *testing.T) {
	if defaultSocket != api.DefaultSocket || path != api.PathCNI || headerBuild != api.HeaderBuild || statusContinue != http.StatusContinue || statusOK != http.StatusOK || statusNoContent != http.StatusNoContent {
		t.Error("a path or a status is another")
	}
	if want := []int{http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusNotImplemented, http.StatusServiceUnavailable}; !slices.Equal(unhandled, want) {
		t.Errorf("unhandled are %v, want %v", unhandled, want)
	}
}

// TestDelegated: the agent gets the call as it is, and its answer is printed as it is.
func TestDelegated(t *testing.T) {
	const result = "{\n    \"cniVersion\": \"1.0.0\"\n}"
	long := strings.Repeat(" ", 100_000) + result
	for _, test := range []struct {
		status  int
		answer  string
		printed string
		code    int
	}{
		{200, result, result, 0},
		{200, long, long, 0},
		{204, "", "", 0},
		{422, `{"cniVersion":"1.1.0","code":7,"msg":"unknown <network>","details":"x"}`, "{\n    \"code\": 7,\n    \"msg\": \"unknown \\u003cnetwork\\u003e\",\n    \"details\": \"x\"\n}", 1},
		{500, `{"code":11,"msg":"busy"}`, "{\n    \"code\": 11,\n    \"msg\": \"busy\"\n}", 1},
	} {
		var sent string
		var body api.CNI
		socket := serve(t, func(w http.ResponseWriter, r *http.Request) {
			data, err := io.ReadAll(r.Body)
			decoder := json.NewDecoder(bytes.NewReader(data))
			decoder.DisallowUnknownFields() // as agents do
			if err != nil || decoder.Decode(&body) != nil || r.URL.Path != api.PathCNI || r.Method != http.MethodPost {
				t.Errorf("%s %s: %q, %v", r.Method, r.URL, data, err)
			}
			sent, body.Build = string(body.Config), r.Header.Get(api.HeaderBuild)
			w.Header().Set("Content-Length", strconv.Itoa(len(test.answer)))
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.answer)
		})
		for _, mode := range []string{"prefer", "require"} {
			text := delegatedTo(socket, mode)
			did := call(t, "ADD", text)
			if did.became || did.code != test.code || did.printed != test.printed {
				t.Errorf("%d %.40q: %+v", test.status, test.answer, did)
			}
			if sent != text || body.Build != version.Build() || len(body.Env) != 4 || body.Env["CNI_ARGS"] != "a=b;ü=\"" {
				t.Errorf("the agent gets %+v", body)
			}
		}
	}
}

// TestWithoutAgent: the engine does what no agent is to do, with the configuration as it is.
func TestWithoutAgent(t *testing.T) {
	socket := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the agent is asked") })
	for _, test := range []struct{ command, config, stdin string }{
		{"CHECK", delegatedTo(socket, "require"), ""}, {"VERSION", "", ""}, {"", "", ""}, {"add", config, ""},
		{"ADD", config, config}, {"DEL", `{`, `{`}, {"GC", `[]`, `[]`}, {"ADD", `{"agent": 3}`, `{"agent": 3}`}, {"STATUS", "", ""},
	} {
		if did := call(t, test.command, test.config); !did.became || did.refusal != nil || did.stdin != test.stdin || did.code != 1 || !strings.Contains(did.printed, "no engine") {
			t.Errorf("%s %s: %+v", test.command, test.config, did)
		}
	}
	p := Program{Getenv: func(string) string { return "ADD" }, Stdin: iotest.ErrReader(errors.New("torn")), Stdout: io.Discard}
	if code := p.Run(); code != 1 {
		t.Errorf("standard input cannot be read: exit code %d", code)
	}
}

// TestRefused: the engine hears why the agent did not do it, and whether it has begun.
func TestRefused(t *testing.T) {
	_, hung := listen(t) // the kernel accepts
	ended := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler) // it ends the connection
	})
	torn := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"cniVersion": "1.0.0"}`)
		panic(http.ErrAbortHandler)
	})
	slow := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	none := filepath.Join(t.TempDir(), "none")
	for _, test := range []struct {
		name, command, mode, socket string
		begun                       bool
		reason                      string
		least, most                 time.Duration
	}{
		{"none", "ADD", "prefer", none, false, "agent at " + none + ": the agent does not answer: connect: no such file or directory", 0, 2500 * time.Millisecond},
		{"a path that is too long", "ADD", "prefer", "/" + strings.Repeat("x", 200), false, "the agent does not answer", 0, 2500 * time.Millisecond},
		{"hung", "ADD", "prefer", hung, false, "i/o timeout", 0, 2500 * time.Millisecond},
		{"hung and required for others", "DEL", "require", hung, false, "i/o timeout", 0, 2500 * time.Millisecond},
		{"hung and required", "ADD", "require", hung, false, "i/o timeout", 2900 * time.Millisecond, time.Hour},
		{"ended", "ADD", "require", ended, true, "unexpected EOF", 0, 2500 * time.Millisecond},
		{"ended in its answer", "ADD", "prefer", torn, true, "unexpected EOF", 0, 2500 * time.Millisecond},
		{"slow", "DEL", "prefer", slow, true, "i/o timeout", 2900 * time.Millisecond, time.Hour},
		{"overloaded", "ADD", "prefer", answering(t, 503, `{"code":11,"msg":"try again later","details":"64 requests"}`), false, "try again later: 64 requests (code 11)", 0, 2500 * time.Millisecond},
		{"no plugin", "ADD", "prefer", answering(t, 501, `{"code":2,"msg":"not supported"}`), false, "not supported (code 2)", 0, 2500 * time.Millisecond},
		{"access denied", "ADD", "require", answering(t, 403, `{"code":102,"msg":"forbidden","details":"user 7"}`), false, "forbidden: user 7 (code 102)", 0, 2500 * time.Millisecond},
		{"no reason", "ADD", "prefer", answering(t, 500, "boom"), true, "the answer has status 500 and no CNI error", 0, 2500 * time.Millisecond},
		{"an error of another program", "DEL", "require", answering(t, 404, `{"message":"page not found"}`), true, "the answer has status 404 and no CNI error", 0, 2500 * time.Millisecond},
		{"a long reason", "ADD", "prefer", answering(t, 503, `{"code":11,"msg":"`+strings.Repeat("x", 300_000)+`"}`), false, "xxx", 0, 2500 * time.Millisecond},
		{"done before it was asked", "DEL", "prefer", garbage(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), false, "the answer has status 200 and no CNI error", 0, 2500 * time.Millisecond},
		{"no content before it was asked", "DEL", "prefer", garbage(t, "HTTP/1.1 204 No Content\r\n\r\n"), false, "status 204", 0, 2500 * time.Millisecond},
		{"asked for the call twice", "ADD", "prefer", garbage(t, strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 2)), true, "", 0, 2500 * time.Millisecond},
		{"in chunks", "ADD", "prefer", chunks(t), true, "status 200 and a Content-Length of -1: want one of at most 16777216", 0, 2500 * time.Millisecond},
		{"larger than memory", "ADD", "prefer", garbage(t, "HTTP/1.1 200 OK\r\nContent-Length: 4611686018427387904\r\n\r\n"), false, "want one of at most", 0, 2500 * time.Millisecond},
		{"a line without an end", "ADD", "prefer", garbage(t, strings.Repeat("x", 1<<16)), false, "buffer full", 0, 2500 * time.Millisecond},
		{"no HTTP", "ADD", "prefer", garbage(t, "hello\n"), false, "is no answer of HTTP/1.1", 0, 2500 * time.Millisecond},
		{"no length", "ADD", "prefer", garbage(t, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), false, "want a number of bytes", 0, 2500 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			text := delegatedTo(test.socket, test.mode)
			did := call(t, test.command, text)
			if !did.became || did.stdin != text || did.refusal == nil || did.refusal.Begun != test.begun || !strings.Contains(did.refusal.Reason, test.reason) {
				t.Fatalf("%+v, %+v", did, did.refusal)
			}
			if len(did.refusal.Reason) > longestReason {
				t.Errorf("the reason has %d bytes", len(did.refusal.Reason))
			}
			if took := did.refusal.Seconds; took < test.least.Seconds() || took > test.most.Seconds() {
				t.Errorf("it took %f s", took)
			}
		})
	}
}

// chunks returns the path of a program that has no length for its answers.
func chunks(t *testing.T) string {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "{}")
	})
}

// garbage is a socket that answers the first request of each connection with a text.
func garbage(t *testing.T, text string) string {
	t.Helper()
	l, path := listen(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(c)) // or writing it fails
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		}
	}()
	return path
}

// TestNotUTF8: JSON would change the value, so the agent is not asked.
func TestNotUTF8(t *testing.T) {
	if _, err := encode(func(string) string { return "\xff" }, []byte(config)); err == nil || !strings.Contains(err.Error(), "CNI_ARGS is not valid UTF-8") {
		t.Errorf("%v", err)
	}
}
