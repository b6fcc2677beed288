// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/ui/uitest"
)

// TestSearch: all words have to be somewhere in an allocation.
func TestSearch(t *testing.T) {
	now := time.Now()
	all := uitest.Allocations(12, now)
	for query, want := range map[string]int{
		"": 12, "  ": 12, "shop": 6, "SHOP": 6, "shop api": 3, "api shop": 3, "postgres storage": 3, "10.88.0.4/16": 1, "fd00:88::5": 1, "20003/tcp": 1, "02:00:00:00:00:01": 1,
		"sidecar": 12, "pending": 1, "adding": 1, all[4].ID: 1, all[4].ID[:8]: 1, "drift": 1, "nothing": 0, "shop nothing": 0, "%": 0,
	} {
		if got := len(search(all, query, map[string]bool{all[7].ID: true})); got != want {
			t.Errorf("%q finds %d, want %d", query, got, want)
		}
	}
	r := start(t)
	r.agent.Fill(12, now)
	r.enter().requireText("allocations?q="+url.QueryEscape("shop api"), "3 of 12 allocations", `value="shop api"`, "Show all")
	r.requireText("allocations?q=drift", "1 of 12 allocations", ">drift<")
	r.requireText("allocations?q=nothing", "No allocation has all of these words")
	r.eventually(60)
	r.requireText("events?q=failed", "attach failed", "could not set")
	r.requireText("events?q=nothing", "No event has all of these words")
}

// TestParts: a list is shown in parts of 1,000, which a search keeps.
func TestParts(t *testing.T) {
	all := uitest.Allocations(2001, time.Now())
	for _, test := range []struct {
		all                        int
		number                     string
		first, rows, before, after int
	}{
		{2001, "", 0, 1000, 0, 2}, {2001, "1", 0, 1000, 0, 2}, {2001, "2", 1000, 1000, 1, 3}, {2001, "3", 2000, 1, 2, 0}, {2001, "4", 2000, 1, 2, 0}, {2001, "-1", 0, 1000, 0, 2}, {2001, "x", 0, 1000, 0, 2},
		{2000, "2", 1000, 1000, 1, 0}, {1000, "2", 0, 1000, 0, 0}, {1, "", 0, 1, 0, 0}, {0, "9", 0, 0, 0, 0},
	} {
		var p allocationsPage
		p.cut(all[:test.all], test.number)
		if len(p.Allocations) != test.rows || p.Before != test.before || p.After != test.after || test.rows > 0 && p.Allocations[0] != all[test.first] {
			t.Errorf("part %q of %d: %d rows, before %d, after %d, want %+v", test.number, test.all, len(p.Allocations), p.Before, p.After, test)
		}
	}
	r := start(t)
	r.agent.Set(api.PathAllocations, all)
	if body := r.enter().page("allocations?q=storage+web&page=2").body; !strings.Contains(body, `q=storage%20web&amp;page=3"`) || !strings.Contains(body, `q=storage%20web&amp;page=1"`) {
		t.Error("the other parts are not those of the search")
	}
}

// BenchmarkAllocations is the list of 1,000 allocations, from the request to the whole page.
func BenchmarkAllocations(b *testing.B) {
	r := start(b)
	r.agent.Set(api.PathAllocations, uitest.Allocations(1000, time.Now()))
	r.enter()
	for b.Loop() {
		if got := r.page("allocations"); strings.Count(got.body, `class="id"`) != 1000 {
			b.Fatalf("status %d", got.status)
		}
	}
}
