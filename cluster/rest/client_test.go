// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rest

import (
	"context"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

func mustNew(t *testing.T, c Config) *Client {
	t.Helper()
	client, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var self = Request{Method: http.MethodGet, Path: "/v1/agent/self", MostBytes: 100}

func TestRequest(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.String()+" "+r.Header.Get("X-Nomad-Token"))
		w.Header().Set("X-Nomad-Index", "42")
		w.Header().Set("X-Nomad-NextToken", "next")
		w.Header().Set("X-Nomad-LastContact", "7")
		_, _ = w.Write([]byte("body"))
	}))
	t.Cleanup(server.Close)
	token := write(t, "token", "first\n")
	client := mustNew(t, Config{Address: server.URL, TokenFile: token, Region: "eu"})
	request := Request{Method: http.MethodPut, Path: "/v1/var/a~b", Query: url.Values{"cas": {"0"}}, Wait: 10 * time.Second, MostBytes: 4}
	answer, err := client.Do(t.Context(), request)
	if diff := cmp.Diff(Answer{Body: []byte("body"), Index: 42, NextToken: "next", LastContact: 7 * time.Millisecond}, answer); diff != "" || err != nil {
		t.Errorf("answer: %v (-want +got):\n%s", err, diff)
	}
	if err := os.WriteFile(token, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Do(t.Context(), request); err != nil {
		t.Error(err)
	}
	want := []string{"PUT /v1/var/a~b?cas=0&region=eu&wait=10s first", "PUT /v1/var/a~b?cas=0&region=eu&wait=10s second"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	request.MostBytes = 3
	if _, err := client.Do(t.Context(), request); err == nil || !strings.Contains(err.Error(), "more than 3 bytes") {
		t.Errorf("an answer that is too large: %v", err)
	}
}

// TestUnixSocket: Nomad's task API is a unix socket.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler()}
	go server.Serve(listener)
	t.Cleanup(func() { _ = server.Close() })
	_, err = mustNew(t, Config{Address: "unix://" + path}).Do(t.Context(), self)
	var answer *Error
	if !errors.As(err, &answer) || answer.Status != http.StatusNotFound {
		t.Errorf("error %v, want the status 404", err)
	}
}

// TestTLS: the server has to be that of the CA and have the name, and gets the certificate.
func TestTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	ca := write(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	for name, test := range map[string]struct {
		config Config
		want   string
	}{
		"CA":            {Config{CAFile: ca, TLSName: "example.com"}, "status 404"},
		"other name":    {Config{CAFile: ca, TLSName: "other.org"}, "not other.org"},
		"system's CAs":  {Config{TLSName: "example.com"}, "certificate"},
		"no such CA":    {Config{CAFile: "/missing"}, "ca_file: open /missing"},
		"no CA in it":   {Config{CAFile: write(t, "x", "x")}, "want PEM"},
		"half a pair":   {Config{CertFile: ca}, "want both or none"},
		"empty address": {Config{}, ""},
	} {
		test.config.Address = server.URL
		client, err := New(test.config)
		if err == nil {
			_, err = client.Do(t.Context(), self)
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}

// TestErrors: they name the agent and what was asked, and show of an answer only text.
func TestErrors(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/redirect":
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		case "/v1/bytes":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte("\x1b[2J"))
		case "/v1/long":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte("No cluster leader " + strings.Repeat("x", 1000)))
		case "/v1/half":
			w.Header().Set("Content-Length", "10")
			_, _ = w.Write([]byte("half"))
		}
	}))
	t.Cleanup(server.Close)
	for path, want := range map[string]string{
		"/v1/redirect": "status 302: <a href=\"http://192.0.2.1/\">Found</a>.",
		"/v1/bytes":    "status 500: an answer that is no text",
		"/v1/long":     "status 500: No cluster leader " + strings.Repeat("x", 182),
		"/v1/half":     "unexpected EOF",
	} {
		_, err := mustNew(t, Config{Address: server.URL}).Do(t.Context(), Request{Method: http.MethodGet, Path: path, MostBytes: 4096})
		if want = "nomad at " + server.URL + ": GET " + path + ": " + want; err == nil || err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
	}
	server.Close()
	_, err := mustNew(t, Config{Address: server.URL}).Do(t.Context(), self)
	if err == nil || !strings.HasPrefix(err.Error(), "nomad at "+server.URL+": GET /v1/agent/self: dial tcp") {
		t.Errorf("no server: %v", err)
	}
}

// pipe returns a pipe without a writer.
func pipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestToken: without its token no request is sent.
// TestStoppingAgent: an agent that is being stopped answers as if the servers had nothing. A
// server without a leader has an answer to what may be old, and so has one with a leader.
func TestStoppingAgent(t *testing.T) {
	for name, test := range map[string]struct {
		leader, contact string
		want            int
	}{
		"stopping":         {"false", "0", 0},
		"follower":         {"true", "7", http.StatusNotFound},
		"leader":           {"true", "0", http.StatusNotFound},
		"without a leader": {"false", "9000", http.StatusNotFound},
		"not of servers":   {"", "", http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Nomad-KnownLeader", test.leader)
				w.Header().Set("X-Nomad-LastContact", test.contact)
				http.Error(w, "variable not found", http.StatusNotFound)
			}))
			t.Cleanup(server.Close)
			var failed *Error
			if _, err := mustNew(t, Config{Address: server.URL}).Do(t.Context(), self); !errors.As(err, &failed) || failed.Status != test.want {
				t.Errorf("error %v, want the status %d", err, test.want)
			}
		})
	}
}

func TestToken(t *testing.T) {
	for _, path := range []string{"/missing", write(t, "empty", " \n"), write(t, "lines", "a\nb"), pipe(t)} {
		client := mustNew(t, Config{Address: "http://127.0.0.1:1", TokenFile: path})
		var token *TokenError
		if _, err := client.Do(t.Context(), self); !errors.As(err, &token) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want one of the token that has the path", path, err)
		}
	}
}

// TestCertificatesAreFiles: a pipe in the place of a certificate or a key is refused at once.
func TestCertificatesAreFiles(t *testing.T) {
	if _, err := New(Config{Address: "https://127.0.0.1:1", CAFile: pipe(t)}); !errors.Is(err, files.ErrNotRegular) {
		t.Errorf("ca_file: %v", err)
	}
	for name, c := range map[string]Config{
		"cert_file": {CertFile: pipe(t), KeyFile: write(t, "key", "")},
		"key_file":  {CertFile: write(t, "cert", ""), KeyFile: pipe(t)},
	} {
		if _, err := keyPair(c); !errors.Is(err, files.ErrNotRegular) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, address := range []string{"127.0.0.1:4646", "ftp://127.0.0.1", "http://", "http://127.0.0.1/nomad", "unix://socket", "unix://", "::"} {
		if _, err := New(Config{Address: address}); err == nil || !strings.Contains(err.Error(), address) {
			t.Errorf("address %q: %v", address, err)
		}
	}
}

type hanging struct{}

func (hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestHangingServer: a request ends after 5 seconds, and a blocking query after its wait.
func TestHangingServer(t *testing.T) {
	for wait, want := range map[time.Duration]time.Duration{0: 5 * time.Second, 16 * time.Second: 22 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			client := mustNew(t, Config{})
			client.http.Transport = hanging{}
			request, began := self, time.Now()
			request.Wait = wait
			_, err := client.Do(t.Context(), request)
			if took := time.Since(began); took != want || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within") {
				t.Errorf("with a wait of %s it took %s, want %s: %v", wait, took, want, err)
			}
		})
	}
}
