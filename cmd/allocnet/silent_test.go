// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestSilentNomad: doctor says after a while what it does, and what it could not ask of a Nomad agent that accepts connections and
// never answers, as one that is stopped.
func TestSilentNomad(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	t.Setenv("NOMAD_ADDR", "http://"+listener.Addr().String())
	_, out, errs := runs(t, "doctor", "--conf-dir", t.TempDir(), "--state-dir", t.TempDir())
	if !strings.Contains(out, "what it offers is not examined") || !strings.Contains(errs, "examining the host") {
		t.Errorf("%s\n%s", out, errs)
	}
}

// TestDeniedByNomad: that Nomad refuses to tell is said, with what makes it tell; a server of Nomad is no client, and says nothing.
func TestDeniedByNomad(t *testing.T) {
	for name, test := range map[string]struct {
		status     int
		body, want string
	}{
		"without a token": {http.StatusForbidden, "Permission denied", `set NOMAD_TOKEN to a token with a policy that has agent { policy = "read" }`},
		"another server":  {http.StatusBadRequest, "Client sent an HTTP request to an HTTPS server.", "NOMAD_CACERT"},
		"no client":       {http.StatusOK, `{"config": {"Version": {"Version": "1.8.4"}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			}))
			t.Cleanup(s.Close)
			t.Setenv("NOMAD_ADDR", s.URL)
			_, out, _ := runs(t, "doctor", "--conf-dir", t.TempDir(), "--state-dir", t.TempDir())
			if found := strings.Contains(out, "what it offers is not examined"); found != (test.want != "") || !strings.Contains(out, test.want) {
				t.Error(out)
			}
		})
	}
}
