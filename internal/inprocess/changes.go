// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// Changes are what a chain leaves to be committed: rules to add or to remove, links to remove,
// and leases to release. The zero value has none.
type Changes struct {
	rules []rules
	// iptables is which program is to change them. Empty: that of the host.
	iptables IPTables
	links    []link
	// leases release addresses when the links that have them, and the rules of the
	// attachment, are removed: they may be given out again at once.
	leases []func(context.Context) error
	// after are run when the rules have been added, until one fails.
	after []func() error
	// translations are those that a repair adds.
	translations []translation
	// repair is whose rules are added only if they are missing; nil for other verbs than CHECK.
	repair *Repair
}

// Commit makes the changes of the chains of one allocation, each kind in one transaction.
// The result has an error for each of them, nil where it succeeded. Removal is safe to
// repeat; an addition that failed may have left a part, which DEL removes. Programs that it
// runs inherit hold, unless it is nil: its locks tell, after kill -9 of this process, that
// one still runs. A panic is an error of all chains: which of them it is from is unknown.
func Commit(ctx context.Context, hold *os.File, all []*Changes) []error {
	errs := make([]error, len(all))
	rules, links := make([]error, len(all)), make([]error, len(all))
	host := &rulesHost{ctx: ctx}
	if hold != nil {
		host.holds = []*os.File{hold}
	}
	if slices.ContainsFunc(all, func(c *Changes) bool { return len(c.rules) > 0 }) {
		// It is closed when nothing else remains to be done: closing waits until the kernel has
		// freed what was removed.
		if host.socket, host.err = netfilter.Dial(ctx); host.err == nil {
			defer host.socket.Close() //nolint:errcheck // nothing is left to send
		}
	}
	var group errgroup.Group
	group.Go(func() error { defer recoverInto(rules); host.commit(all, rules); return nil })
	group.Go(func() error { defer recoverInto(links); removeLinks(ctx, all, links); return nil })
	_ = group.Wait() // each reports its own
	for i, c := range all {
		if errs[i] = errors.Join(rules[i], links[i]); errs[i] == nil {
			c.finish(ctx, errs[i:i+1])
		}
		errs[i] = coded(ctx, errs[i])
	}
	return errs
}

// finish does what follows the rules and links. It reports its error in errs, which has one
// element.
func (c *Changes) finish(ctx context.Context, errs []error) {
	defer recoverInto(errs)
	if errs[0] = c.releaseLeases(ctx); errs[0] == nil {
		errs[0] = c.runAfter()
	}
}

// recoverInto is deferred. It makes a panic the error of all.
func recoverInto(errs []error) {
	reason := recover()
	if reason == nil {
		return
	}
	for i := range errs {
		errs[i] = newPanicked(reason).cniError("commit")
	}
}

func (c *Changes) runAfter() error {
	for _, f := range c.after {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Changes) releaseLeases(ctx context.Context) error {
	var errs []error
	for _, release := range c.leases {
		errs = append(errs, release(ctx))
	}
	return errors.Join(errs...)
}

// coded returns the error of a commit as a plugin would: with the code of internal errors.
func coded(ctx context.Context, err error) error {
	var own *types.Error
	if err == nil || ctx.Err() != nil || errors.As(err, &own) {
		return err
	}
	return types.NewError(types.ErrInternal, err.Error(), "")
}

// rules are the rules of one plugin for one attachment, of one backend.
type rules struct {
	remove   bool
	iptables *iptablesRules
	nftables *nftablesRules
}

// rulesHost is the host's rules of both backends.
type rulesHost struct {
	ctx context.Context
	// holds are inherited by programs.
	holds []*os.File
	// socket is nil if there are no rules, and if it cannot be had because of err.
	socket *netfilter.Socket
	err    error
}

// commit adds and removes the rules of all chains, and reports the errors of each in errs: one
// transaction for each family and backend. Where that fails, because the host has changed or
// lacks what all share, each plugin's rules are handled separately.
func (h *rulesHost) commit(all []*Changes, errs []error) {
	commitNFTables(h.socket, h.err, all, errs)
	for _, kind := range kindsOf(all) {
		for _, family := range iptablesFamilies {
			(&iptablesHost{ctx: h.ctx, holds: h.holds, kind: kind, family: family, socket: h.socket}).commit(all, errs)
		}
	}
}
