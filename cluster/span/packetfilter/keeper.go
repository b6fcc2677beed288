// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package packetfilter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/advertised"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// Options are those of a keeper.
type Options struct {
	// Dir is where a record says what there may be of ours, before it is made. Required.
	Dir string
	// Logger gets a line for each change. Nil: none.
	Logger hclog.Logger
}

// Keeper changes the filters of the network namespace of its caller. It is not for concurrent use.
type Keeper struct {
	o      Options
	system system
}

// system is what changes are made with.
type system interface {
	run(ctx context.Context, stdin, name string, args ...string) (string, error)
	hasIptables() bool
	set(path, value string) error
}

// New returns a keeper. It does nothing yet.
func New(o Options) *Keeper {
	o.Logger = cmp.Or(o.Logger, hclog.NewNullLogger())
	return &Keeper{o, host{programLimit}}
}

// Facts are what a host does with packets that it forwards; see package forwarding.
type Facts interface {
	// Interfaces are those that packets of a pool come from.
	Interfaces(*ipam.Config) []string
	// Disabled are the settings that have to be 1, as paths below /proc/sys.
	Disabled([]*ipam.Config) []string
	// IsRejected is whether firewalld rejects what is inside a subnet.
	IsRejected(netip.Prefix) bool
}

// Found is what was found on the host.
type Found struct {
	Facts
	// Listings are the rules of iptables, in each of its places that is in use.
	Listings []cleanup.Listing
	// IsPartial is whether some could not be listed.
	IsPartial bool
}

// Goal is what to let through.
type Goal struct {
	// Pools are those whose packets are let through. None is flat.
	Pools []*ipam.Config
	// Spared are names of other pools. What they have stays.
	Spared []string
	// Known are the subnets of all pools that are known, by name: if the record is damaged, the sources may be
	// those. Nil: none.
	Known map[string][]netip.Prefix
}

// Keep makes the host let packets of the pools through, and no more than these. What is right is not
// touched. All is attempted.
func (k *Keeper) Keep(ctx context.Context, found Found, g Goal) (changed bool, err error) {
	recorded, err := k.readRecord()
	if err != nil {
		return false, err
	}
	recorded.assume(g.Known)
	r := round{Keeper: k}
	if recorded.HasRules && len(found.Listings) == 0 && !k.system.hasIptables() {
		r.errs = append(r.errs, fmt.Errorf("no program of iptables is installed, and there may be rules of the chain %s: install iptables, or remove %s if there are none", chainName, k.recordPath()))
		found.IsPartial = true
	}
	plans, hasRules := planAll(found, g)
	add, drop := planSources(recorded, found, g)
	next := record{HasRules: hasRules || found.IsPartial && recorded.HasRules, Sources: slices.Concat(recorded.Sources, add)}
	if err := k.writeRecord(record{HasRules: next.HasRules || recorded.HasRules || len(plans) > 0, Sources: next.Sources}); err != nil {
		return false, err
	}
	for _, path := range found.Disabled(g.Pools) {
		r.did(path, k.system.set(path, "1"))
	}
	for _, p := range plans {
		next.HasRules = !r.restore(ctx, p) || next.HasRules
	}
	next.Sources = r.changeSources(ctx, next.Sources, add, drop)
	return r.changed, errors.Join(append(r.errs, k.writeRecord(next))...)
}

type round struct {
	*Keeper
	changed bool
	errs    []error
}

// did notes a change, and tells whether it was made.
func (r *round) did(what string, err error) bool {
	if err != nil {
		r.errs = append(r.errs, err)
		return false
	}
	r.changed = true
	r.o.Logger.Info("changed what lets packets of pools through", "change", what)
	return true
}

// Remove removes all that is ours, on record or not. Known is as in Goal.
func (k *Keeper) Remove(ctx context.Context, known map[string][]netip.Prefix) error {
	limited, stop := context.WithTimeout(ctx, programLimit)
	defer stop()
	listings, err := cleanup.Listings(limited)
	_, keepErr := k.Keep(ctx, Found{noFacts{}, listings, err != nil}, Goal{Known: known})
	return errors.Join(err, keepErr)
}

// noFacts are those of a host of which nothing has to be known.
type noFacts struct{}

func (noFacts) Interfaces(*ipam.Config) []string { return nil }
func (noFacts) Disabled([]*ipam.Config) []string { return nil }
func (noFacts) IsRejected(netip.Prefix) bool     { return false }

const (
	// programLimit bounds a program. It is more than netfilter.LockWait.
	programLimit = 40 * time.Second
	// firewalldLimit bounds what is asked of firewalld in a round, whose daemon may not answer.
	firewalldLimit = 20 * time.Second
)

// host is the one that this process runs on.
type host struct {
	limit time.Duration
}

func (h host) run(ctx context.Context, stdin, name string, args ...string) (string, error) {
	ctx, stop := context.WithTimeoutCause(ctx, h.limit, fmt.Errorf("does not end: %w", context.DeadlineExceeded))
	defer stop()
	return netfilter.Runner{}.Run(ctx, stdin, name, args...)
}

func (host) hasIptables() bool { return cleanup.HasIptables() }

func (host) set(path, value string) error {
	var parameters sysctl.Tree
	if path == advertised.Forwarding && value == "1" {
		return advertised.Forward(&parameters)
	}
	return parameters.Set(path, value)
}
