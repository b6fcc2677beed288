// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"net"
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
