// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
	"github.com/allocnet/allocnet/state"
)

// Learn records what other hosts say of their attachments with addresses of a pool, and when that was read, and has the host know them, if it keeps
// anything apart; without any it is as if they were gone. It is safe to repeat.
func Learn(ctx context.Context, e *operation.Env, pool string, remotes []isolation.Remote, read time.Time) error {
	h := host{&e.Config, e.Store}
	unlock, err := e.Store.Isolation().Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	all, err := e.Store.Isolation().Learned()
	if err != nil {
		return err
	}
	now := state.Learned{Pool: pool}
	if len(remotes) > 0 {
		if now.Content, err = json.Marshal(remotes); err != nil {
			return err
		}
	}
	before := of(pool, all)
	if read.IsZero() { // what is known is known for long
		read = before.Read
	}
	isMade := !e.Store.Isolation().IsLearning()
	switch {
	case !bytes.Equal(before.Content, now.Content):
		if err := e.Store.Isolation().SetLearned(pool, now.Content, read); err != nil {
			return err
		}
	case now.Content != nil:
		if err := e.Store.Isolation().ConfirmLearned(pool, read); err != nil {
			return err
		}
	}
	if isMade && bytes.Equal(before.Content, now.Content) {
		return nil
	}
	if err := h.change(ctx, before, now, isMade); err != nil {
		return err
	}
	return e.Store.Isolation().EndLearning()
}

// change has the host know what is on record instead of what was; isMade is whether it knows that. The caller holds the lock.
func (h host) change(ctx context.Context, before, now state.Learned, isMade bool) error {
	inForce, err := h.inForce()
	if inForce == nil {
		return err
	}
	w := sync.OnceValue(func() wanted { return h.stillInForce(inForce) })
	source := func() (filter.State, error) { return h.source(ctx, w())() }
	former, latest := remotesIn(before), remotesIn(now)
	if !isMade {
		if former, latest, err = h.interrupted(former); err != nil {
			return err
		}
	}
	if !isMade || isOutdated(former, time.Now()) { // when the host got them last, jobs were known, or they were not
		if err := h.config.Filter.Apply(ctx, source); err != nil {
			return err
		}
	}
	gone, made := membersOf(former), membersOf(latest)
	rules, err := inForce.Rules.All()
	if err != nil {
		return err
	}
	if err := h.config.Filter.Change(ctx, rules, gone, made, source); err != nil {
		return err
	}
	if inForce.Levels.anyInside() {
		now := w()
		h.enforceInside(ctx, now, &now, filter.Replaced(gone, made)...)
	}
	return context.Cause(ctx)
}

// stillInForce is what is in force with the levels of all networks: what is on record does not tell of those that are not kept apart any more. What is
// another one by now follows soon.
func (h host) stillInForce(inForce *wanted) wanted {
	if w, _, err := h.load(); err == nil && w.isSame(*inForce) {
		return w
	}
	return *inForce
}

// interrupted returns what the host may have since one has not ended to learn, and what is on record of all pools.
func (h host) interrupted(before []isolation.Remote) (former, latest []isolation.Remote, err error) {
	content, err := h.store.Isolation().Former()
	if err != nil {
		return nil, nil, err
	}
	latest, err = h.learned()
	return append(remotesIn(state.Learned{Content: content}), before...), latest, err
}

// isOutdated tells whether jobs on record are unknown by a time.
func isOutdated(remotes []isolation.Remote, at time.Time) bool {
	return slices.ContainsFunc(remotes, func(r isolation.Remote) bool {
		then := r.At(at)
		return then.Namespace != r.Namespace || then.Job != r.Job || then.Group != r.Group
	})
}

// of returns what is on record of a pool; the zero value: nothing.
func of(pool string, all []state.Learned) state.Learned {
	for _, l := range all {
		if l.Pool == pool {
			return l
		}
	}
	return state.Learned{}
}

// remotesIn returns the attachments on other hosts that are on record. What cannot be read is not known, as what another version has written.
func remotesIn(l state.Learned) (all []isolation.Remote) {
	if json.Unmarshal(l.Content, &all) != nil {
		return nil
	}
	return all
}

func membersOf(remotes []isolation.Remote) (all []filter.Member) {
	for _, r := range remotes {
		for _, m := range r.Members() {
			all = append(all, filter.Member{Member: m, Via: r.Via})
		}
	}
	return all
}

// learned returns the attachments on other hosts that are known of all pools by now.
func (h host) learned() (all []isolation.Remote, err error) {
	pools, err := h.store.Isolation().Learned()
	if err != nil {
		return nil, fmt.Errorf("attachments on other hosts: %w", err)
	}
	now := time.Now()
	for _, l := range pools {
		for _, r := range remotesIn(l) {
			all = append(all, r.At(now))
		}
	}
	return all, nil
}

// Remembered returns what is on record of the attachments on other hosts with addresses of a pool.
func Remembered(e *operation.Env, pool string) ([]isolation.Remote, error) {
	all, err := e.Store.Isolation().Learned()
	return remotesIn(of(pool, all)), err
}

// Shares tells whether other hosts are to know the attachments of this one: its rules, or levels of its networks, are about attachments.
func Shares(e *operation.Env) (bool, error) {
	w, _, err := host{&e.Config, e.Store}.load()
	return w.Rules.Allow > 0 || w.apart(), err
}
