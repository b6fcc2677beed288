// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package doctor examines a host for what keeps allocations from being attached
// or taken down: it changes nothing, and names for each finding the command
// that mends it.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// Severity tells what is wrong from what could be better.
type Severity string

// Severities of findings.
const (
	// Wrong keeps something from working, or is left of something dead.
	Wrong Severity = "wrong"
	// Advice may matter, depending on what the host is for.
	Advice Severity = "advice"
)

// Finding is one thing that the examination found.
type Finding struct {
	Severity Severity `json:"severity"`
	// Subject is what it is about: a file, a network, an allocation, a
	// setting.
	Subject string `json:"subject"`
	Problem string `json:"problem"`
	// Mend is the command or the edit that mends it.
	Mend string `json:"mend"`
}

// Report is what an examination found.
type Report struct {
	// Findings are wrong ones first, then in the order of their subjects.
	Findings []Finding `json:"findings"`
	// Pools are the address pools of the networks that use host-local.
	Pools []Pool `json:"pools"`
}

// Healthy tells whether nothing is wrong; there may be advice.
func (r *Report) Healthy() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == Wrong })
}

// Doctor knows what to examine.
type Doctor struct {
	// ConfDirs have the networks.
	ConfDirs []string
	// NomadConfDir is the directory that Nomad's client reads. Empty: not known,
	// perhaps the last of ConfDirs.
	NomadConfDir string
	// PolicyFile has the rules of the host. Default: policy.DefaultFile.
	PolicyFile string
	// PluginDirs have the CNI plugins. Default: CNI_PATH, else
	// cniconf.DefaultPluginDirs.
	PluginDirs []string
	// Store has the records.
	Store *state.Store
	// Collector finds leaks.
	Collector *cleanup.Collector
}

// Examine examines everything and changes nothing. What cannot be examined is
// a finding, not an error.
func (d *Doctor) Examine(ctx context.Context) *Report {
	r := &Report{Findings: []Finding{}, Pools: []Pool{}}
	networks := d.networks(r)
	d.plugins(ctx, r, networks)
	overlaps(r, networks)
	sharedRanges(r, networks)
	settings(r, networks, "/proc/sys")
	backends(ctx, r)
	found := d.leaks(ctx, r)
	pools(r, networks, found)
	d.records(ctx, r)
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(-cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Subject, b.Subject))
	})
	return r
}

func (r *Report) wrong(subject, problem, mend string) {
	r.Findings = append(r.Findings, Finding{Wrong, subject, problem, mend})
}

func (r *Report) advise(subject, problem, mend string) {
	r.Findings = append(r.Findings, Finding{Advice, subject, problem, mend})
}

// networks reads the conf directory.
func (d *Doctor) networks(r *Report) []network {
	catalog, err := cniconf.Load(d.ConfDirs...)
	if err != nil {
		dirs := strings.Join(d.ConfDirs, " ")
		r.wrong(dirs, err.Error(), "mkdir -p "+dirs+", and put network configurations there")
		return nil
	}
	for _, broken := range catalog.Broken {
		r.wrong("conf directory", broken.Error(), "edit "+broken.Path)
	}
	for _, shadowed := range catalog.Shadowed {
		r.wrong(shadowed.Path, fmt.Sprintf("an earlier file has the name %q too: this one is not used", shadowed.Name),
			"give it another name, or remove it")
	}
	d.exposed(r, catalog)
	var networks []network
	for _, n := range catalog.Networks {
		networks = append(networks, describe(n))
	}
	return networks
}

// records looks at what is on record.
func (d *Doctor) records(ctx context.Context, r *Report) {
	for record, err := range d.Store.List(ctx) {
		if err != nil {
			r.wrong("state", err.Error(), "use the program that wrote it, or move the file away")
			continue
		}
		id := record.Allocation.ID
		for _, damaged := range record.Damaged {
			r.wrong(id, "record is damaged: "+damaged.String(), repairOf(record))
		}
		for _, a := range record.Attachments {
			if a.Phase == state.Pending {
				r.wrong(id, fmt.Sprintf("%s was not taken down, tried %d times: %s", a.Interface, a.Attempts, a.Error), "allocnet detach "+id)
			}
		}
	}
	stale, err := d.Store.StaleLocks()
	if err != nil {
		r.wrong("state", "locks cannot be looked at: "+err.Error(), "see that the state directory is root's")
	}
	for _, id := range stale {
		r.advise(id, "a process that was killed left its lock file", "allocnet gc")
	}
}

// repairOf is the command for a damaged record: the dead need none.
func repairOf(record state.Record) string {
	a := record.Allocation
	ns, err := a.Namespace()
	if err == nil {
		_ = ns.Close() // only looked at
	}
	if a.Netns != "" && errors.Is(err, netns.ErrMissing) {
		return "allocnet gc"
	}
	return "allocnet check --repair " + a.ID
}

// leaks counts what is leaked, by kind.
func (d *Doctor) leaks(ctx context.Context, r *Report) *cleanup.Found {
	report, found, err := d.Collector.Examine(ctx, cleanup.Scope{}, cleanup.NobodyElse)
	if err != nil {
		r.wrong("leaks", "cannot be looked for: "+err.Error(), "mend what the error names")
		return &cleanup.Found{}
	}
	counts := map[string]int{}
	for _, v := range report.Leaked() {
		counts[string(v.Kind)]++
		if v.Kind == cleanup.Ports {
			r.wrong(v.Where, fmt.Sprintf("ports are published for allocation %s, which is dead: %s", v.Owner, v.Why), "allocnet cleanup "+v.Owner.Allocation)
		}
		if v.Blocked != "" {
			r.wrong(v.Where, "is leaked and cannot be removed: "+v.Blocked, "remove that rule, then: allocnet gc")
		}
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[kind], kind))
	}
	if len(parts) > 0 {
		r.wrong("leaks", "left of dead allocations: "+strings.Join(parts, ", "), "allocnet gc (allocnet gc --dry-run shows them)")
	}
	for _, p := range report.Problems {
		r.wrong(p.Where, p.Reason, "move it away, or mend it")
	}
	return found
}

// missing names what is wrong with plugins.
func missing(err error) (*cniconf.MissingPluginError, bool) {
	var m *cniconf.MissingPluginError
	return m, errors.As(err, &m)
}
