// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/selection"
)

// TestAttachNothingSetUp: further networks of an ID that is not set up make no namespace by surprise.
func TestAttachNothingSetUp(t *testing.T) {
	for _, test := range []struct {
		args    []string
		refused bool
	}{
		{nil, true},
		{[]string{"--primary="}, false},
		{[]string{"--primary", "web"}, false},
		{[]string{"--netns", "/run/netns/none"}, false},
	} {
		var out strings.Builder
		args := append([]string{"attach", "x9", "--networks", "web@if1", "--state-dir", t.TempDir(), "--conf-dir", t.TempDir()}, test.args...)
		if execute(t.Context(), args, &out, &out) == cli.ExitDone {
			t.Fatalf("%q succeeds: %s", test.args, &out)
		}
		if got := strings.Contains(out.String(), "allocation x9 is not set up") && strings.Contains(out.String(), "--primary NETWORK"); got != test.refused {
			t.Errorf("%q: refused: %t, want %t: %s", test.args, got, test.refused, &out)
		}
	}
}

// TestReported: what takes longer than two seconds says what it waits for, once.
func TestReported(t *testing.T) {
	r := hook.Request{ID: "web-1", Primary: &selection.Element{Name: "web"}, Networks: []selection.Element{{Name: "storage"}}}
	failed := errors.New("failed")
	for takes, want := range map[time.Duration]string{
		1900 * time.Millisecond: "",
		10 * time.Second:        "allocnet: web-1: waiting for the plugins of web, storage\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			var stderr bytes.Buffer
			s := &cli.Settings{}
			_, err := s.Reported(waiting(&stderr, r), func() (*hook.Allocation, error) {
				time.Sleep(takes)
				return nil, failed
			})
			if got := stderr.String(); got != want || !errors.Is(err, failed) {
				t.Errorf("%s: printed %q, error %v, want %q and the error", takes, got, err, want)
			}
		})
	}
}
