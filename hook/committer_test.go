// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/internal/inprocess"
)

// commits are the sizes of what a committer has committed.
type commits struct {
	mu    sync.Mutex
	sizes []int
	err   error
}

func (c *commits) commit(chains ...*chain) []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sizes = append(c.sizes, len(chains))
	errs := make([]error, len(chains))
	errs[0] = c.err
	return errs
}

func chainInProcess() *chain { return &chain{changes: &inprocess.Changes{}} }

func lasting(d time.Duration) func() error {
	return func() error { time.Sleep(d); return nil }
}

// Chains that run at the same time are one commit, when the last one has ended.
func TestChainsAreCommittedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made commits
		c := &committer{commit: made.commit}
		started := time.Now()
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				if err := c.do(chainInProcess(), lasting(time.Duration(i+1)*time.Second)); err != nil {
					t.Error(err)
				}
				if took := time.Since(started); took != 3*time.Second {
					t.Errorf("chain %d is committed after %s, want 3s", i, took)
				}
			})
		}
		all.Wait()
		if len(made.sizes) != 1 || made.sizes[0] != 3 {
			t.Errorf("commits of %v chains, want one of 3", made.sizes)
		}
	})
}

// Neither executed plugins nor the pause after a failure delay a commit.
func TestCommitWaitsForNoPlugins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made commits
		c := &committer{commit: made.commit}
		started, failure := time.Now(), errors.New("scripted")
		var all sync.WaitGroup
		all.Go(func() { _ = c.do(&chain{}, lasting(time.Hour)) })
		all.Go(func() {
			for range 3 {
				if err := c.do(chainInProcess(), func() error { time.Sleep(time.Second); return failure }); !errors.Is(err, failure) {
					t.Errorf("%v, want the failure of the chain", err)
				}
				time.Sleep(time.Minute)
			}
		})
		if err := c.do(chainInProcess(), lasting(time.Millisecond)); err != nil {
			t.Error(err)
		}
		if took := time.Since(started); took != time.Second {
			t.Errorf("committed after %s, want 1s", took)
		}
		all.Wait()
		if len(made.sizes) != 1 || made.sizes[0] != 1 {
			t.Errorf("commits of %v chains, want one of 1", made.sizes)
		}
	})
}

// The error of a commit is that of its chain alone.
func TestErrorOfACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := commits{err: errors.New("scripted")}
		c := &committer{commit: made.commit}
		var all sync.WaitGroup
		for i, want := range []error{made.err, nil} {
			all.Go(func() {
				if err := c.do(chainInProcess(), lasting(time.Duration(i+1)*time.Second)); !errors.Is(err, want) {
					t.Errorf("chain %d: %v, want %v", i, err, want)
				}
			})
		}
		all.Wait()
	})
}
