// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cleanup"
)

// TestLogger: warnings are plain text unless a level of log lines is asked for.
func TestLogger(t *testing.T) {
	for _, test := range []struct {
		settings settings
		want     string
	}{
		{settings{logLevel: "warn"}, "allocnet: warning: attach failed (network web, attempt 1): no fabric\nallocnet: at all\nallocnet: record is damaged\n"},
		{settings{logLevel: "error"}, "allocnet: record is damaged\n"},
		{settings{logLevel: "off"}, ""},
	} {
		var out bytes.Buffer
		log, err := test.settings.logger(&out)
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
	log, err := (&settings{logLevel: "debug"}).logger(&out)
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("plugin call", "took", 1)
	if !strings.Contains(out.String(), "[DEBUG] allocnet: plugin call: took=1") {
		t.Errorf("debug: %q", out.String())
	}
}

// TestSummary does not count what was removed before leaks were examined.
func TestSummary(t *testing.T) {
	leak, live := cleanup.Decision{Leaked: true}, cleanup.Decision{}
	for _, test := range []struct {
		dryRun bool
		report cleanup.Report
		want   string
	}{
		{true, cleanup.Report{Decisions: []cleanup.Decision{leak, leak, live}}, "2 leaked, none removed; objects of live or unknown owners: 1"},
		{false, cleanup.Report{Decisions: []cleanup.Decision{leak, leak, live}, Removed: 1}, "2 leaked, 1 removed by force; objects of live or unknown owners: 1"},
		{false, cleanup.Report{}, "no leaks were left to remove by force; objects of live or unknown owners: 0"},
	} {
		if got := summary(test.dryRun, &test.report); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
