// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/ui/uitest"
)

// TestMapByJob: allocations are by job, those with problems first, and each problem is where it is.
func TestMapByJob(t *testing.T) {
	of := func(id, namespace, job, group string, networks ...string) *api.Allocation {
		a := &api.Allocation{ID: id, Identity: allocation.Identity{Namespace: namespace, Job: job, Group: group, Region: "r"}}
		for i, n := range networks {
			a.Attachments = append(a.Attachments, allocation.Attachment{Network: n, Interface: fmt.Sprintf("eth%d", i), Phase: "attached"})
		}
		return a
	}
	h := &host{
		Allocations: part[[]*api.Allocation]{Value: []*api.Allocation{
			of("a", "", "", "", "web"), of("b", "prod", "web", "x", "web", "old"), of("c", "dev", "web", "", "web"), of("d", "prod", "web", "y", "web"), of("e", "prod", "db", "", "web"),
		}},
		Networks: part[*api.Networks]{Value: &api.Networks{Broken: []string{"a file"}, Networks: []api.Network{{Name: "web"}, {Name: "lab", Problem: "no master"}}}},
		Map:      part[*api.Map]{Value: &api.Map{Drift: []api.Drift{{Network: "web", Text: "web0 is down"}, {Network: "web", Allocation: "d", Interface: "eth0", Text: "is gone"}}}},
		Pools:    part[*api.Pools]{Value: &api.Pools{}}, Cluster: part[*api.Cluster]{Value: &api.Cluster{}}, Repair: part[*api.Repair]{Value: &api.Repair{}},
	}
	text := func(p mapPage) string {
		var b strings.Builder
		for _, n := range p.Networks {
			fmt.Fprintf(&b, "%s:%d:%d ", n.Name, n.Attachments, len(n.Problems))
		}
		for _, j := range p.Jobs {
			fmt.Fprintf(&b, "| %s/%s %d %t", j.Identity.Namespace, j.Identity.Job, j.Problems, j.Open)
			for _, n := range j.Networks {
				fmt.Fprintf(&b, " %s:%d", n.Name, n.Count)
			}
			for _, a := range j.Allocations {
				fmt.Fprintf(&b, " %s(%d)", a.ID, len(a.Problems))
			}
		}
		return fmt.Sprintf("%s of %d, %d, %d", &b, p.Allocations, p.Attachments, p.Problems)
	}
	for only, want := range map[bool]string{
		false: "web:5:1 lab:0:1 old:1:0 | dev/web 0 true web:1 c(0)| prod/db 0 true web:1 e(0)| prod/web 1 true old:1 web:2 d(1) b(0)| / 0 true web:1 a(0) of 5, 6, 3",
		true:  "web:5:1 lab:0:1 | prod/web 1 true web:1 d(1) of 5, 6, 3",
	} {
		if got := text(newMap(h, only)); got != want {
			t.Errorf("only problems: %t:\n%s, want\n%s", only, got, want)
		}
	}
	h.Map.Err, h.Networks.Err = errors.New("no map"), errors.New("no networks")
	if p := newMap(h, false); p.Unknown == nil || len(p.Networks) != 2 || p.Problems != 0 {
		t.Errorf("%+v, want that it is not known what differs", p)
	}
}

// TestMapIsBounded: of many allocations of a job some are shown, and of a large host the jobs with problems are open.
func TestMapIsBounded(t *testing.T) {
	r := start(t)
	r.agent.Fill(1000, time.Now())
	r.agent.Set(api.PathRepair, api.Repair{})
	body := r.enter().page("map").body
	if rows := strings.Count(body, `<a class="id"`); rows != 3*shownPerJob {
		t.Errorf("%d allocations are shown, want %d of each of 3 jobs", rows, shownPerJob)
	}
	if open := strings.Count(body, " open><summary>"); open != 2 || !strings.Contains(body, "226 more allocations") {
		t.Errorf("%d jobs are open, want the two with problems", open)
	}
	t.Logf("%d bytes", len(body))
	r.requireText("map?show=problems", "Show all", uitest.Allocations(1000, time.Now())[2].ID)
	r.agent.Set(api.PathAllocations, []*api.Allocation{})
	r.agent.Set(api.PathNetworks, api.Networks{})
	r.requireText("map", "There is no network", "No allocation is set up")
	r.requireText("map?show=problems", "No network has a problem", "No allocation has a problem")
}

// TestMapUnknown: what is not known is no "no problem".
func TestMapUnknown(t *testing.T) {
	for _, path := range []string{api.PathRepair, api.PathNetworks, api.PathMap} {
		r := start(t)
		r.agent.Set(path, &api.Error{Msg: "it fails", Status: 500})
		if body := r.enter().page("map").body; strings.Contains(body, "no problem") || !strings.Contains(body, "it fails") {
			t.Errorf("without the answer of %s the map has no problem, or not why that is not known", path)
		}
	}
}
