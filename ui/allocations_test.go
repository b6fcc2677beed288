// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
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

// TestParts: a list is shown in parts, which a search and an order keep.
func TestParts(t *testing.T) {
	all := uitest.Allocations(2*perPage+1, time.Now())
	for _, test := range []struct {
		all                        int
		number                     string
		first, rows, before, after int
	}{
		{2*perPage + 1, "", 0, perPage, 0, 2}, {2*perPage + 1, "1", 0, perPage, 0, 2}, {2*perPage + 1, "2", perPage, perPage, 1, 3},
		{2*perPage + 1, "3", 2 * perPage, 1, 2, 0}, {2*perPage + 1, "4", 2 * perPage, 1, 2, 0}, {2*perPage + 1, "-1", 0, perPage, 0, 2}, {2*perPage + 1, "x", 0, perPage, 0, 2},
		{2 * perPage, "2", perPage, perPage, 1, 0}, {perPage, "2", 0, perPage, 0, 0}, {1, "", 0, 1, 0, 0}, {0, "9", 0, 0, 0, 0},
	} {
		var p allocationsPage
		p.cut(all[:test.all], test.number)
		if len(p.Allocations) != test.rows || p.Before != test.before || p.After != test.after || test.rows > 0 && p.Allocations[0] != all[test.first] {
			t.Errorf("part %q of %d: %d rows, before %d, after %d, want %+v", test.number, test.all, len(p.Allocations), p.Before, p.After, test)
		}
	}
	r := start(t)
	r.agent.Set(api.PathAllocations, all)
	if body := r.enter().page("allocations?q=storage+web&page=2&order=job").body; !strings.Contains(body, `q=storage%20web&amp;order=job&amp;page=3"`) || !strings.Contains(body, `q=storage%20web&amp;order=job&amp;page=1"`) {
		t.Error("the other parts are not those of the search")
	}
}

// TestOrders: without an order, or with one that there is not, what is broken is first, and then what changes.
func TestOrders(t *testing.T) {
	now := time.Now()
	of := func(id, job string, age time.Duration, phase string) *api.Allocation {
		return &api.Allocation{ID: id, Identity: allocation.Identity{Job: job}, Created: now.Add(-age), Attachments: []allocation.Attachment{{Network: "web", Phase: allocation.Phase(phase)}}}
	}
	r := start(t)
	r.agent.Set(api.PathAllocations, []*api.Allocation{
		of("a", "web", 3*time.Hour, "attached"), of("b", "db", time.Hour, "adding"), of("c", "cron", 2*time.Hour, "pending"), of("d", "cache", 4*time.Hour, "attached"),
	})
	r.agent.Set(api.PathRepair, api.Repair{Damaged: []api.Damage{{Allocation: "d"}}})
	r.enter()
	for query, want := range map[string]string{"": "c d b a", "order=none": "c d b a", "order=id": "a b c d", "order=job": "d c b a", "order=created": "b c a d", "q=broken": "c d"} {
		var got []string
		for _, found := range regexp.MustCompile(`class="id" href="[^"]*" title="(.)"`).FindAllStringSubmatch(r.page("allocations?"+query).body, -1) {
			got = append(got, found[1])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %s", query, got, want)
		}
	}
}

// TestRepeatedEvents: what is the same in a row is one event, with how often and for how long.
func TestRepeatedEvents(t *testing.T) {
	now := time.Now()
	at := func(i int, allocation, failure string) api.Event {
		return api.Event{Index: uint64(100 - i), Time: now.Add(-time.Duration(i) * 15 * time.Second), Operation: "attach", Outcome: "failed", Allocation: allocation, Error: failure, Seconds: float64(i)}
	}
	got := eventsOf([]api.Event{at(0, "a", "busy"), at(1, "a", "busy"), at(2, "a", "busy"), at(3, "a", "gone"), at(4, "b", "gone"), at(5, "a", "gone")})
	if len(got) != 4 || got[0].Times != 3 || got[0].Time != now || got[0].First != now.Add(-30*time.Second) || got[1].Times != 1 {
		t.Errorf("%+v", got)
	}
	r := start(t)
	for i := range 7 {
		r.agent.Emit(api.Event{Index: uint64(i + 1), Time: now.Add(time.Duration(i-7) * 15 * time.Second), Operation: "attach", Outcome: "failed", Allocation: "web-1", Networks: []string{"web"}, Error: "busy"})
	}
	r.enter().eventually(7)
	r.requireText("events", "7 times in 1m30s")
}

// BenchmarkAllocations is the list of 1,000 allocations, from the request to the whole page.
func BenchmarkAllocations(b *testing.B) {
	r := start(b)
	r.agent.Set(api.PathAllocations, uitest.Allocations(1000, time.Now()))
	r.enter()
	for b.Loop() {
		if got := r.page("allocations"); strings.Count(got.body, `class="id"`) != perPage {
			b.Fatalf("status %d", got.status)
		}
	}
}
