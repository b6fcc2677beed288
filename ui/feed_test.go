// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"bufio"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
)

func all(api.Event) bool { return true }

// TestFeedKeeps: the newest events, and the samples of the window.
func TestFeedKeeps(t *testing.T) {
	f := newFeed(nil)
	for i := range keptEvents + 5 {
		f.add(api.Event{Index: uint64(i + 1)})
	}
	if got := f.newest(keptEvents*2, all); len(got) != keptEvents || got[0].Index != keptEvents+5 || f.last() != keptEvents+5 {
		t.Errorf("%d events, the newest %d", len(got), got[0].Index)
	}
	if got := f.newest(3, func(e api.Event) bool { return e.Index%2 == 0 }); len(got) != 3 || got[0].Index != keptEvents+4 || got[2].Index != keptEvents {
		t.Errorf("selected %v", got)
	}
	now := time.Date(2025, 11, 3, 10, 0, 0, 0, time.UTC)
	for i := range 200 {
		f.sample(hostOf(&api.Allocation{Attachments: make([]allocation.Attachment, i)}), nil, now.Add(time.Duration(i)*step))
	}
	samples, _ := f.history(now)
	if last := samples[len(samples)-1]; len(samples) != int(window/step)+1 || last.attachments != 199 {
		t.Errorf("%d samples, the last one %v", len(samples), last)
	}
	before, changed := f.next()
	f.sample(nil, errors.New("no answer"), now.Add(time.Hour))
	if after, _ := f.next(); after == before {
		t.Error("the version is the same")
	}
	select {
	case <-changed:
	default:
		t.Error("those who wait are not woken")
	}
	if samples, _ := f.history(now); len(samples) != 0 {
		t.Errorf("%d samples are older than the window", len(samples))
	}
}

// hostOf is one with allocations, whose agent has nothing else.
func hostOf(all ...*api.Allocation) *host {
	none := &api.Error{Status: http.StatusNotImplemented}
	h := &host{Allocations: part[[]*api.Allocation]{Value: all}}
	for _, err := range []*error{&h.Networks.Err, &h.Pools.Err, &h.Leaks.Err, &h.Cluster.Err, &h.Repair.Err, &h.Map.Err} {
		*err = none
	}
	return h
}

// TestHistory: what was attached before the first sample is known by events. Counts are those of the newest sample.
func TestHistory(t *testing.T) {
	f := newFeed(nil)
	now := time.Date(2025, 11, 3, 10, 0, 0, 0, time.UTC)
	for i, e := range []api.Event{
		{Operation: "attach", Outcome: "done"}, {Operation: "attach", Outcome: "done"}, {Operation: "attach", Outcome: "failed"},
		{Operation: "detach", Outcome: "done"}, {Operation: "repair", Outcome: "done"}, {Operation: "attach", Outcome: "done"},
	} {
		e.Index, e.Time = uint64(i+1), now.Add(time.Duration(i-5)*time.Minute)
		f.add(e)
	}
	if samples, events := f.history(now); samples != nil || len(events) != 6 {
		t.Errorf("before a sample: %v, %d events", samples, len(events))
	}
	f.sample(hostOf(&api.Allocation{ID: "a", Attachments: make([]allocation.Attachment, 1)}, &api.Allocation{ID: "b", Error: "torn"}), nil, now.Add(-30*time.Second))
	var got []int
	samples, _ := f.history(now)
	for _, s := range samples {
		got = append(got, s.attachments)
	}
	if want := []int{1, 2, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("history %v, want %v", got, want)
	}
	if allocations, problems := f.counts(); allocations != 2 || problems != 1 {
		t.Errorf("%d allocations, %d problems", allocations, problems)
	}
}

// TestLive: a stream says the version at once, and again with each change; it ends without a
// session.
func TestLive(t *testing.T) {
	r := start(t).enter()
	response, err := r.browser.Get(r.at(r.server.base + "live"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() // only read
	if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type %q", got)
	}
	lines := bufio.NewScanner(response.Body)
	message := func() string {
		t.Helper()
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return data
			}
		}
		t.Fatalf("the stream ends: %v", lines.Err())
		return ""
	}
	first := message()
	r.agent.Emit(api.Event{Time: time.Now(), Operation: "attach", Outcome: "done", Allocation: "fresh"})
	for message() == first {
	}
	r.eventually(1)
	r.requireText("events", "fresh")
	r.browser.Jar = nil
	if got := r.page("live"); got.status != 403 {
		t.Errorf("without a session: status %d", got.status)
	}
}

// TestCharts: each part of the window has what was done in it.
func TestCharts(t *testing.T) {
	now := time.Date(2025, 11, 3, 10, 0, 0, 0, time.UTC)
	events := []api.Event{
		{Time: now, Operation: "attach", Outcome: "done", Seconds: 0.5}, {Time: now.Add(-time.Second), Operation: "detach", Outcome: "done", Seconds: 9},
		{Time: now.Add(-2 * time.Second), Operation: "attach", Outcome: "failed", Seconds: 1}, {Time: now.Add(-window + time.Second), Operation: "attach", Outcome: "done", Seconds: 0.25},
		{Time: now.Add(time.Minute), Operation: "attach", Outcome: "done", Seconds: 0.5}, // another clock
	}
	c := operationChart(events, now)
	if len(c.Bars) != 3 || c.Bars[0].X != 1 || c.Bars[1].Class != "plain" || c.Bars[2].Class != "bad" || c.Bars[2].Y != 4 || c.Bars[2].Y+c.Bars[2].Height != c.Bars[1].Y {
		t.Errorf("operations: %+v", c.Bars)
	}
	if c.Now != "5" || !strings.Contains(c.Label, "1 of them failed") {
		t.Errorf("operations: %+v", c)
	}
	if c = durationChart(events, now); len(c.Bars) != 2 || c.Now != "500 ms" || c.Top != "1 s" || c.Bars[1].Y != 4 || c.Bars[0].Height != 15 {
		t.Errorf("durations: %+v", c)
	}
	if c = durationChart(events[1:2], now); len(c.Bars) != 0 || c.Now != "–" {
		t.Errorf("without an attach: %+v", c)
	}
	samples := []sample{{time: now.Add(-window / 2), attachments: 4}, {time: now, attachments: 2}}
	if c = attachmentChart(samples, now); c.Line != "150.0,4.0 300.0,34.0 300.0,34.0" || c.Now != "2" || c.Top != "4" {
		t.Errorf("attachments: %+v", c)
	}
	if c = attachmentChart(nil, now); c.Line != "" || c.Now != "–" {
		t.Errorf("without a sample: %+v", c)
	}
	if c = attachmentChart([]sample{{time: now}}, now); !strings.HasSuffix(c.Line, "300.0,64.0") {
		t.Errorf("without an attachment: %+v", c)
	}
}

// TestBars: what is not empty can be seen, and a bar is never longer than the whole.
func TestBars(t *testing.T) {
	for _, test := range []struct {
		used, cooling, total float64
		want                 bar
	}{
		{0, 0, 0, bar{}}, {5, 0, 0, bar{}}, {0, 0, 100, bar{}}, {1, 0, 65533, bar{Used: 0.75}}, {50, 10, 100, bar{Used: 50, Cooling: 10}},
		{80, 10, 100, bar{Used: 80, Cooling: 10, Class: "tight"}}, {100, 0, 100, bar{Used: 100, Class: "full"}}, {120, 50, 100, bar{Used: 100, Class: "full"}}, {60, 90, 100, bar{Used: 60, Cooling: 40, Class: "full"}},
	} {
		if got := barOf(test.used, test.cooling, test.total); got != test.want {
			t.Errorf("%v and %v of %v: %+v, want %+v", test.used, test.cooling, test.total, got, test.want)
		}
	}
}
