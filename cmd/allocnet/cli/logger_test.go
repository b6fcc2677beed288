// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestLogger: warnings are plain text unless a level of log lines is asked for.
func TestLogger(t *testing.T) {
	for _, test := range []struct {
		settings Settings
		want     string
	}{
		{Settings{logLevel: "warn"}, "allocnet: warning: attach failed (network web, attempt 1): no fabric\nallocnet: at all\nallocnet: record is damaged\n"},
		{Settings{logLevel: "error"}, "allocnet: record is damaged\n"},
		{Settings{logLevel: "off"}, ""},
	} {
		var out bytes.Buffer
		log, err := test.settings.Logger(&out)
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("plugin call")
		log.With("network", "web").Warn("attach failed", "attempt", 1, "error", errors.New("no fabric\nat all"))
		log.Error("record is damaged")
		if out.String() != test.want {
			t.Errorf("%s: %q, want %q", test.settings.logLevel, out.String(), test.want)
		}
	}
	var out bytes.Buffer
	log, err := (&Settings{logLevel: "debug"}).Logger(&out)
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("plugin call", "took", 1)
	if !strings.Contains(out.String(), "[DEBUG] allocnet: plugin call: took=1") {
		t.Errorf("debug: %q", out.String())
	}
}
