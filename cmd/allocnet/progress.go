// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/termtext"
)

// quietTime is for how long a command that attaches or repairs prints nothing.
const quietTime = 2 * time.Second

// waiting returns the progress of attaching an allocation. It is for its engine, too: the first
// engine of a boot removes what the boots before have left.
func (s *settings) waiting(stderr io.Writer, r hook.Request) *progress {
	return s.newProgress(stderr, fmt.Sprintf("%s: waiting for the plugins of %s", r.ID, strings.Join(networkNames(r), ", ")))
}

// reported returns what attach does, and shows meanwhile what it waits for if that takes long:
// without a terminal, in a line.
func (s *settings) reported(p *progress, attach func() (*hook.Allocation, error)) (a *hook.Allocation, err error) {
	if p.columns > 0 && !s.json {
		end := p.begin()
		defer end()
		return attach()
	}
	s.meanwhile(p.w, p.doing, func() { a, err = attach() })
	return a, err
}

// meanwhile does something, and prints what it is if that takes long. With --json it does not
// print: there, stderr has an error as JSON, and nothing else.
func (s *settings) meanwhile(stderr io.Writer, what string, do func()) {
	if s.json {
		do()
		return
	}
	done := make(chan struct{})
	timer := time.AfterFunc(quietTime, func() {
		defer close(done)
		printError(stderr, what)
	})
	do()
	if !timer.Stop() {
		<-done // so that the error comes last
	}
}

func networkNames(r hook.Request) []string {
	var names []string
	if r.Primary != nil {
		names = append(names, r.Primary.Name)
	}
	for _, n := range r.Networks {
		names = append(names, n.Name)
	}
	return names
}

// progress is a line at the end of a terminal that says what a command does which takes long. It
// is the writer of what the command prints meanwhile, which comes before the line, and it
// observes what an engine removes.
type progress struct {
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

var _ hook.Observer = (*progress)(nil)

// progressInterval is between changes of the line.
const progressInterval = 500 * time.Millisecond

// eraseLine has a terminal remove the line of the cursor.
const eraseLine = "\r\x1b[K"

// progress shows what a command does, from quietTime until end is called. It shows nothing
// without a terminal, and with --json.
func (s *settings) progress(stderr io.Writer, doing string) (p *progress, end func()) {
	p = s.newProgress(stderr, doing)
	if p.columns == 0 || s.json {
		return p, func() {}
	}
	return p, p.begin()
}

func (*settings) newProgress(stderr io.Writer, doing string) *progress {
	return &progress{w: stderr, columns: terminalOf(stderr).columns, doing: doing}
}

// begin shows the line at times, until end is called.
func (p *progress) begin() (end func()) {
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

func (p *progress) show(elapsed time.Duration) {
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
	text += ", " + age(elapsed)
	_, _ = io.WriteString(p.w, eraseLine+termtext.Cut(printable(text), p.columns-1, "…")) // there is no other output
	p.shown = true
}

// erase removes the line.
func (p *progress) erase() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eraseLocked()
}

func (p *progress) eraseLocked() {
	if p.shown {
		_, _ = io.WriteString(p.w, eraseLine) // there is no other output
	}
	p.shown = false
}

// Write prints what comes before the line.
func (p *progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.eraseLocked()
	return p.w.Write(text)
}

// Observe counts the attachments and leaks that were removed.
func (p *progress) Observe(o hook.Observation) {
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

// step says how far a command is. Without a terminal that is a line of its own, except with
// --json: there, stderr has an error as JSON, and nothing else.
func (p *progress) step(done string, asJSON bool) {
	if p.columns == 0 && !asJSON {
		printError(p.w, done)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = done
}
