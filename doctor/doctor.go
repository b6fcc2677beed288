// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package doctor examines a host for problems with attaching allocations and tearing them down. It
// changes nothing. Each finding has the command or the edit that solves the problem.
//
// A check is a function that adds findings to a Report, in a file named after its subject.
// Doctor.Examine calls them all; asRoot those that need root. Another source of facts is a field
// of Doctor, which cmd/allocnet fills, so that a test can replace it.
package doctor

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/cluster/forwarding"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/acd"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/nomad"
	"github.com/allocnet/allocnet/state"
)

// Doctor examines one host.
type Doctor struct {
	// ConfDirs are the CNI configuration directories.
	ConfDirs []string
	// NomadConfDir is the directory that Nomad's client reads. Empty: unknown;
	// it may be the last of ConfDirs.
	NomadConfDir string
	// NomadVersion is the version of the Nomad client. The zero value is unknown: nothing
	// is reported that depends on it.
	NomadVersion nomad.Version
	// NomadSilent is why Nomad, which runs, does not tell what it offers. Nil: it does, or there is none.
	NomadSilent error
	// PolicyFile has the rules of the host. Default: policy.DefaultFile.
	PolicyFile string
	// PluginDirs have the CNI plugins. Default: CNI_PATH, else
	// cniconf.DefaultPluginDirs.
	PluginDirs []string
	// WhyPlugins returns why a network is executed by its plugins, and nil for one that is not.
	// Default: all are.
	WhyPlugins func(*cniconf.Network) error
	// CheckKeys returns why the keys of a network keep it from being attached, and Warnings what
	// else is wrong with them. Default: they are not examined.
	CheckKeys func(*cniconf.Network) error
	Warnings  func(*cniconf.Network) []string
	// IsolationFile has the rules of isolation. Default: isolation.DefaultFile.
	IsolationFile string
	// AgentSilent returns why no agent answers on this host. Nil: it is not examined.
	AgentSilent func(context.Context) error
	// StateDir is the directory of the records.
	StateDir string
	// PoolSource connects to a pool of allocnet-ipam. Nil: pools are not examined.
	PoolSource func(*ipam.Config) (PoolSource, error)
	// Unprivileged leaves out what only root can examine. Default: everything is examined,
	// for which Store and Collector are required.
	Unprivileged bool
	// Store has the records.
	Store *state.Store
	// Drifts compares running attachments with the host, and changes nothing. Nil: they are not
	// compared.
	Drifts func(context.Context) ([]hook.Drift, error)
	// Collector finds leaks.
	Collector *cleanup.Collector
}

// Examine examines everything and changes nothing. A failure to examine
// something is a finding, not an error.
func (d *Doctor) Examine(ctx context.Context) *Report {
	r := &Report{Findings: []Finding{}, Pools: []Pool{}}
	d.silentNomad(r)
	networks := d.networks(r)
	d.plugins(ctx, r, networks)
	d.dhcpDaemons(r, networks)
	masters(r, networks, netns.HasLinkNamed)
	overlaps(r, networks)
	sharedRanges(r, networks)
	d.isolation(ctx, r, networks)
	links := sync.OnceValues(netns.OwnInterfaces)
	subnetsOfHost(r, networks, links)
	managedLinks(r, links, running("/proc"), outputOf(ctx))
	settings(r, networks, "/proc/sys")
	facts := forwarding.Collect(ctx, netip.Addr{}, !d.Unprivileged)
	unread(r, networks, facts.Unread)
	if slices.ContainsFunc(networks, func(n network) bool { return len(n.RoutedPlugins()) > 0 }) {
		routedPools(r, networks, facts)
	}
	outward(r, networks, facts)
	d.isolatedBeside(r, networks, facts)
	uplinks(r, networks, facts.Underlay, links)
	if d.PoolSource != nil {
		d.sharedPools(ctx, r, networks)
	}
	if d.Unprivileged {
		r.addWarning("doctor", "rules of iptables and nftables, leaks, used addresses, records and attachments are not examined without root", "run as root")
	} else {
		d.asRoot(ctx, r, networks)
	}
	r.sort()
	return r
}

// asRoot examines what other users cannot read.
func (d *Doctor) asRoot(ctx context.Context, r *Report, networks []network) {
	backends(ctx, r, netfilter.HasNFTables)
	d.leaks(ctx, r)
	pools(r, networks)
	d.records(ctx, r, networks)
	d.leases(ctx, r)
	contested(ctx, r, netns.Published, acd.Contested)
	d.drifts(ctx, r)
	d.fights(ctx, r)
}

// Severity is how much a finding matters.
type Severity string

// Severities of findings.
const (
	// Error is a fault: something cannot work, or a dead allocation left
	// something behind.
	Error Severity = "error"
	// Warning may matter, depending on the purpose of the host.
	Warning Severity = "warning"
)

// Finding is one problem of the host.
type Finding struct {
	Severity Severity `json:"severity"`
	// Subject is a file, a network, a plugin, an allocation or a kernel setting.
	Subject string `json:"subject"`
	Problem string `json:"problem"`
	// Fix is the command or the edit that solves the problem.
	Fix string `json:"fix"`
	// Unexamined is whether Problem is that something could not be looked at: it may have other problems.
	Unexamined bool `json:"unexamined,omitempty"`
}

// Report is the result of an examination.
type Report struct {
	// Findings are sorted by severity, errors first, then by subject.
	Findings []Finding `json:"findings"`
	// Pools are the address pools of the networks that use host-local.
	Pools []Pool `json:"pools"`
}

// Healthy reports whether there are no errors, and all was looked at. Other warnings are allowed.
func (r *Report) Healthy() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == Error || f.Unexamined })
}

func (r *Report) addError(subject, problem, fix string) {
	r.Findings = append(r.Findings, Finding{Severity: Error, Subject: subject, Problem: problem, Fix: fix})
}

func (r *Report) addWarning(subject, problem, fix string) {
	r.Findings = append(r.Findings, Finding{Severity: Warning, Subject: subject, Problem: problem, Fix: fix})
}

// addUnexamined adds that something could not be looked at, although the host and the caller's privileges allow it.
func (r *Report) addUnexamined(subject, problem, fix string) {
	r.Findings = append(r.Findings, Finding{Severity: Warning, Subject: subject, Problem: problem, Fix: fix, Unexamined: true})
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Subject, b.Subject))
	})
}
