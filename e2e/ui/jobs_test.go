// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/ui/uitest"
)

// TestOpenJobs: which jobs of the map are open stays with these jobs when others come and go.
func TestOpenJobs(t *testing.T) {
	agent := uitest.Start(t)
	set := func(jobs ...string) {
		all := []*api.Allocation{}
		for _, job := range jobs {
			all = append(all, &api.Allocation{ID: "of-" + job, Identity: allocation.Identity{Namespace: "default", Job: job}})
		}
		agent.Set(api.PathAllocations, all)
		agent.Emit(api.Event{Time: time.Now(), Operation: "attach", Outcome: "done"})
	}
	set("b", "c")
	b := open(t)
	base := b.enter(run(t, agent.Socket))
	b.do(chromedp.Navigate(base+"map"), chromedp.WaitVisible(chromedp.CSS("details.job:nth-of-type(2)")))
	b.eventually(`document.getElementById("state").textContent === "Live"`)
	b.do(chromedp.Click(chromedp.CSS("summary"))) // closes b
	for _, step := range []struct {
		jobs []string
		want string
	}{{[]string{"a", "b", "c"}, "[true,false,true]"}, {[]string{"c"}, "[true]"}} {
		set(step.jobs...)
		b.eventually(fmt.Sprintf(`document.querySelectorAll("details.job").length === %d`, len(step.jobs)))
		if got := script[string](b, `JSON.stringify([...document.querySelectorAll("details.job")].map((d) => d.open))`); got != step.want {
			t.Errorf("with %q these are open: %s, want %s", step.jobs, got, step.want)
		}
	}
	b.requireQuiet()
}
