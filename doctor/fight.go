// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/event"
	"github.com/allocnet/allocnet/hook"
)

const (
	// fightTime is how far back repairs are looked for, and fightRepairs the number of them that an
	// operator who reloads rules does not cause.
	fightTime    = 10 * time.Minute
	fightRepairs = 3
)

func (d *Doctor) fights(ctx context.Context, r *Report) {
	var repairs []event.Event
	for e, err := range (event.Log{StateDir: d.StateDir}).Events(ctx, event.Filter{}, false) {
		if err != nil {
			r.addUnexamined("events", err.Error(), "make root the owner of the state directory")
			return
		}
		if e.Operation == string(hook.OpRepair) && e.Outcome == string(hook.Done) && len(e.Missing) > 0 {
			repairs = append(repairs, e)
		}
	}
	fightFindings(r, repairs, time.Now(), running("/proc"))
}

// fight is that with another program about an attachment.
type fight struct{ repairs []event.Event }

// fightFindings finds fights among repairs, the oldest first. The programs are those that run.
func fightFindings(r *Report, repairs []event.Event, now time.Time, programs []string) {
	fights := map[[2]string]*fight{}
	var order []*fight
	for _, e := range repairs {
		if now.Sub(e.Time) > fightTime {
			continue
		}
		key := [2]string{e.Allocation, e.Interface}
		if fights[key] == nil {
			fights[key] = &fight{}
			order = append(order, fights[key])
		}
		fights[key].repairs = append(fights[key].repairs, e)
	}
	for _, f := range order {
		if len(f.repairs) >= fightRepairs {
			f.report(r, now, programs)
		}
	}
}

func (f *fight) report(r *Report, now time.Time, programs []string) {
	first := f.repairs[0]
	problem := fmt.Sprintf("%s was repaired %d times in the last %s, by %s: another program removes %s",
		nameOf(first.Interface, strings.Join(first.Networks, ", ")), len(f.repairs), minutesText(now.Sub(first.Time)), f.callers(), listing(f.removed()))
	if removers := f.removers(); len(removers) > 0 {
		problem += "; rules of its chains removed by " + listing(removers)
	} else if len(programs) > 0 {
		problem += "; of those that do such things, here run " + strings.Join(programs, ", ")
	}
	r.addWarning(first.Allocation, problem, "stop that program, or exclude these from it; when it happened: allocnet events --allocation "+first.Allocation)
}

// minutesText rounds a duration up.
func minutesText(d time.Duration) string {
	if minutes := int(d/time.Minute) + 1; minutes > 1 {
		return fmt.Sprintf("%d minutes", minutes)
	}
	return "minute"
}

func (f *fight) callers() string {
	var callers []string
	for _, e := range f.repairs {
		if !slices.Contains(callers, e.Caller) {
			callers = append(callers, e.Caller)
		}
	}
	return strings.Join(callers, ", ")
}

// removed is what was missing often, the most frequent first; all, if nothing was.
func (f *fight) removed() []string {
	missing := make([][]string, len(f.repairs))
	for i, e := range f.repairs {
		missing[i] = e.Missing
	}
	return often(missing)
}

// removers are the processes that have removed it often, by names, each with its last number.
func (f *fight) removers() []string {
	last := map[string]hook.Remover{}
	names := make([][]string, len(f.repairs))
	for i, e := range f.repairs {
		for _, by := range e.RemovedBy {
			name := by.Name + "\x00" + by.Parent
			last[name] = by
			names[i] = append(names[i], name)
		}
	}
	texts := often(names)
	for i, name := range texts {
		texts[i] = last[name].String()
	}
	return texts
}

// often returns what is in several of the lists, the most frequent first; all, if nothing is.
func often(lists [][]string) (all []string) {
	times := map[string]int{}
	for _, list := range lists {
		for _, one := range list {
			if times[one]++; times[one] == 1 {
				all = append(all, one)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b string) int { return times[b] - times[a] })
	rare := slices.IndexFunc(all, func(one string) bool { return times[one] < fightRepairs })
	if rare > 0 {
		return all[:rare]
	}
	return all
}

// rewriters are the names, as the kernel shortens them, of programs that are known to remove rules,
// links, addresses or routes of others.
var rewriters = []string{"NetworkManager", "calico-node", "cilium-agent", "dockerd", "firewalld", "kube-proxy", "systemd-network"}

// running returns the rewriters that run, by what is in /proc.
func running(proc string) []string {
	var found []string
	files, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "comm")) // the pattern is correct
	for _, file := range files {
		name, _ := os.ReadFile(file) // a process that has ended does not run
		if text := strings.TrimSpace(string(name)); slices.Contains(rewriters, text) && !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	slices.Sort(found)
	return found
}
