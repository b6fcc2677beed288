// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/termtext"
)

// quietTime is for how long a command that attaches or repairs prints nothing.
const quietTime = 2 * time.Second

// Reported returns what attach does, and shows meanwhile what it waits for if that takes long:
// without a terminal, in a line.
func (s *Settings) Reported(p *Progress, attach func() (*hook.Allocation, error)) (a *hook.Allocation, err error) {
	if p.columns > 0 && !s.JSON {
		end := p.begin()
		defer end()
		return attach()
	}
	s.Meanwhile(p.w, p.doing, func() { a, err = attach() })
	return a, err
}

// Meanwhile does something, and prints what it is if that takes long. With --json it does not
// print: there, stderr has an error as JSON, and nothing else.
func (s *Settings) Meanwhile(stderr io.Writer, what string, do func()) {
	if s.JSON {
		do()
		return
	}
	done := make(chan struct{})
	timer := time.AfterFunc(quietTime, func() {
		defer close(done)
		PrintError(stderr, what)
	})
	do()
	if !timer.Stop() {
		<-done // so that the error comes last
	}
}

// Progress is a line at the end of a terminal that says what a command does which takes long. It
// is the writer of what the command prints meanwhile, which comes before the line, and it
// observes what an engine removes.
type Progress struct {
	w       io.Writer
	columns int
	doing   string

	// mu is for all below.
	mu      sync.Mutex
	removed int
	// booted is how many attachments of earlier boots were cleaned up.
	booted int
	done   string
	shown  bool
}

var _ hook.Observer = (*Progress)(nil)

// progressInterval is between changes of the line.
const progressInterval = 500 * time.Millisecond

const eraseLine = "\r\x1b[K"

// Progress shows what a command does, from quietTime until end is called. It shows nothing
// without a terminal, and with --json.
func (s *Settings) Progress(stderr io.Writer, doing string) (p *Progress, end func()) {
	p = NewProgress(stderr, doing)
	if p.columns == 0 || s.JSON {
		return p, func() {}
	}
	return p, p.begin()
}

// NewProgress returns the progress of what a command does, which Reported shows.
func NewProgress(stderr io.Writer, doing string) *Progress {
	return &Progress{w: stderr, columns: TerminalOf(stderr).Columns, doing: doing}
}

// begin shows the line at times, until end is called.
func (p *Progress) begin() (end func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		started, wait := time.Now(), quietTime
		for {
			select {
			case <-stop:
				return
			case <-time.After(wait):
				p.show(time.Since(started))
				wait = progressInterval
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-stopped
		p.erase()
	})
}

func (p *Progress) show(elapsed time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := "allocnet: " + p.doing
	switch {
	case p.done != "":
		text += ": " + p.done
	case p.booted > 0:
		text += fmt.Sprintf(": %d of earlier boots removed", p.booted)
	case p.removed > 0:
		text += fmt.Sprintf(": %d removed", p.removed)
	}
	text += ", " + Age(elapsed)
	_, _ = io.WriteString(p.w, eraseLine+termtext.Cut(Printable(text), p.columns-1, "…")) // there is no other output
	p.shown = true
}

func (p *Progress) erase() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eraseLocked()
}

func (p *Progress) eraseLocked() {
	if p.shown {
		_, _ = io.WriteString(p.w, eraseLine) // there is no other output
	}
	p.shown = false
}

// Write prints what comes before the line.
func (p *Progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eraseLocked()
	return p.w.Write(text)
}

// Observe counts the attachments and leaks that were removed.
func (p *Progress) Observe(o hook.Observation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.Err == nil && o.Reason == hook.ReasonBoot {
		p.booted++
		return
	}
	if o.Err == nil && (o.Op == hook.OpDetach || o.Op == hook.OpCleanup) {
		p.removed += max(1, o.Objects)
	}
}

// Step says how far a command is. Without a terminal that is a line of its own, except with
// --json: there, stderr has an error as JSON, and nothing else.
func (p *Progress) Step(done string, asJSON bool) {
	if p.columns == 0 && !asJSON {
		PrintError(p.w, done)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = done
}
