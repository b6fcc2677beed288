// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/event"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// hostile clears a terminal, and is longer than a line.
var hostile = "\x1b[2J\r\n\u202e" + strings.Repeat("no such VLAN ", 10)

// observations are events of each kind.
var observations = []hook.Observation{
	{Op: hook.OpAttach, Allocation: first, Network: "web", Interface: "eth0", Attempts: 1, Took: 48 * time.Millisecond},
	{Op: hook.OpRetry, Allocation: first, Network: "a-network-with-a-long-name", Interface: "net0", Attempts: 1, Err: errors.New("busy"), Took: time.Second},
	{Op: hook.OpAttach, Allocation: first, Network: "a-network-with-a-long-name", Interface: "net0", Attempts: 3, Err: errors.New(hostile), Took: 3 * time.Second},
	{Op: hook.OpDetach, Reason: hook.ReasonRollback, Allocation: first, Network: "web", Interface: "eth0"},
	{Op: hook.OpAttach, Networks: []string{"web", "x\x1b[31m"}, Err: errdefs.New(errdefs.Refused, "allocation ID: no")},
	{Op: hook.OpDetach, Reason: hook.ReasonGC, Allocation: "web-1", Network: "web", Interface: "eth0", Took: 2 * time.Minute},
	{Op: hook.OpCleanup, Reason: hook.ReasonGC, Allocation: "web-1", Networks: []string{"web"}, Objects: 4},
	{Op: hook.OpCleanup, Allocation: "web-1", Network: "web", Interface: "eth0"},
	{Op: hook.OpRepair, Allocation: "web-1", Missing: []string{"bridge web0"}, RemovedBy: []hook.Remover{{Name: "nft", PID: 12}}},
}

func recordEvents(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	r := event.NewRecorder(dir, "allocnet systemd-run", hclog.NewNullLogger())
	for _, o := range observations {
		r.Observe(o)
	}
	return dir
}

func readEvents(t *testing.T, dir string) []event.Event {
	t.Helper()
	var all []event.Event
	for e, err := range (event.Log{StateDir: dir}).Events(t.Context(), event.Filter{}, false) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// TestEventsOnTerminal: the lines fit, and have nothing that a terminal acts on.
func TestEventsOnTerminal(t *testing.T) {
	var out bytes.Buffer
	lines := &eventLines{w: &out, Terminal: cli.Terminal{Columns: 80}}
	if err := lines.heading(); err != nil {
		t.Fatal(err)
	}
	for _, e := range readEvents(t, recordEvents(t)) {
		if err := lines.print(e); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line) > 80 || cli.Printable(line) != line {
			t.Errorf("%d columns: %q", utf8.RuneCountInString(line), line)
		}
	}
	for _, want := range []string{"attached", "attach retried", "attach failed", "rolled back", "attach refused", "collected", "cleaned up", "repaired", "5c2e9a0e ", `\x1b[2J`, "48ms", "3.0s", "2m", "bridge web0; rules of its chains removed by nft (PID 12)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, &out)
		}
	}
}

// TestEvents: what a pipe gets, filters and exit codes.
func TestEvents(t *testing.T) {
	dir, empty := recordEvents(t), t.TempDir()
	for _, test := range []struct {
		args  []string
		code  int
		lines int
		want  string
	}{
		{nil, cli.ExitDone, 10, "attach refused"},
		{[]string{"--allocation", "5c2e9a0e"}, cli.ExitDone, 5, first},
		{[]string{"--allocation", "web-1", "--network", "web"}, cli.ExitDone, 4, "web-1"},
		{[]string{"--allocation", "web"}, cli.ExitDone, 1, "EVENT"},
		{[]string{"--network", "none"}, cli.ExitDone, 1, "EVENT"},
		{[]string{"--after", "8"}, cli.ExitDone, 2, "bridge web0"},
		{[]string{"--after", "8", "--json"}, cli.ExitDone, 1, `"operation":"repair"`},
		{[]string{"--state-dir", empty}, cli.ExitDone, 1, "EVENT"},
		{[]string{"--state-dir", empty, "--json"}, cli.ExitDone, 0, ""},
		{[]string{"--allocation", "../web"}, cli.ExitRefused, 0, "allocation ID"},
		{[]string{"--since", "1h"}, cli.ExitDone, 10, "attach refused"},
		{[]string{"--since", "0s"}, cli.ExitDone, 1, "EVENT"},
		{[]string{"--since", "2001-01-31"}, cli.ExitDone, 10, "attach refused"},
		{[]string{"--since", "2999-01-31T15:04:05+01:00"}, cli.ExitDone, 1, "EVENT"},
		{[]string{"--since", "-1h"}, cli.ExitRefused, 0, "--since -1h: want a duration such as 90s"},
		{[]string{"--since", "31.1.2026"}, cli.ExitRefused, 0, "a date such as 2026-01-31"},
		{[]string{"web-1"}, cli.ExitRefused, 0, "want no arguments"},
	} {
		var stdout, stderr bytes.Buffer
		code := execute(t.Context(), append([]string{"events", "--state-dir", dir}, test.args...), &stdout, &stderr)
		if code != test.code || strings.Count(stdout.String(), "\n") != test.lines || !strings.Contains(stdout.String()+stderr.String(), test.want) {
			t.Errorf("%q: exit code %d\n%s%s", test.args, code, &stdout, &stderr)
		}
	}
}

// TestEventsJSON has the keys that docs/events.md describes.
func TestEventsJSON(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := execute(t.Context(), []string{"events", "--json", "--state-dir", recordEvents(t)}, &stdout, &stderr); code != cli.ExitDone {
		t.Fatalf("exit code %d\n%s", code, &stderr)
	}
	keys := map[string]bool{}
	for line := range strings.Lines(stdout.String()) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		for key := range e {
			keys[key] = true
		}
	}
	for _, key := range []string{"version", "index", "time", "operation", "outcome", "reason", "caller", "allocation", "networks", "interface", "attempts", "objects", "seconds", "error", "missing"} {
		if !keys[key] {
			t.Errorf("no event has %s", key)
		}
	}
}

// TestWrap breaks at spaces, and within long words.
func TestWrap(t *testing.T) {
	for s, want := range map[string][]string{
		"": {""}, "a b": {"a b"}, "aaa bbb": {"aaa", "bbb"}, "aaaaaaaaa b": {"aaaaa", "aaaa", "b"}, "äääää ö": {"äääää", "ö"},
	} {
		if got := cli.Wrap(s, 5); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}
