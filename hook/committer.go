// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import "sync"

// committer commits what chains of one operation have left. Those that run in this process at
// the same time are committed together, when the last of them has ended. None waits for
// plugins that are executed, nor for a pause between attempts: until its rules are committed,
// an interface is open to all.
type committer struct {
	// commit makes what chains have left. It returns an error for each.
	commit func(chains ...*chain) []error

	mu      sync.Mutex
	running int
	// ended is nil if no chain waits to be committed.
	ended *batch
}

// batch are chains that are committed together.
type batch struct {
	chains []*chain
	// errs are complete when committed is closed.
	errs      []error
	committed chan struct{}
}

// do runs a chain, and returns when what it has left is committed. The error is that of run,
// or that of the commit.
func (c *committer) do(of *chain, run func() error) error {
	if of.changes == nil {
		return run()
	}
	c.mu.Lock()
	c.running++
	c.mu.Unlock()
	err := run()
	wait := c.end(of, err == nil)
	if err != nil {
		return err
	}
	return wait()
}

// end is called when a chain has ended. The last one commits. The result waits for the commit
// of a chain that succeeded, and returns its error.
func (c *committer) end(of *chain, succeeded bool) (wait func() error) {
	c.mu.Lock()
	c.running--
	if succeeded && c.ended == nil {
		c.ended = &batch{committed: make(chan struct{})}
	}
	b, index, last := c.ended, 0, c.running == 0
	if succeeded {
		index = len(b.chains)
		b.chains = append(b.chains, of)
	}
	if last {
		c.ended = nil
	}
	c.mu.Unlock()
	if last && b != nil {
		b.errs = c.commit(b.chains...)
		close(b.committed)
	}
	return func() error {
		<-b.committed
		return b.errs[index]
	}
}
