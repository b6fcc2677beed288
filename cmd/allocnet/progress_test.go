// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/selection"
)

// TestReported: what takes longer than two seconds says what it waits for, once.
func TestReported(t *testing.T) {
	r := hook.Request{ID: "web-1", Primary: &selection.Element{Name: "web"}, Networks: []selection.Element{{Name: "storage"}}}
	failed := errors.New("failed")
	for takes, want := range map[time.Duration]string{
		1900 * time.Millisecond: "",
		10 * time.Second:        "allocnet: web-1: waiting for the plugins of web, storage\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			var stderr bytes.Buffer
			s := &settings{}
			_, err := s.reported(s.waiting(&stderr, r), func() (*hook.Allocation, error) {
				time.Sleep(takes)
				return nil, failed
			})
			if got := stderr.String(); got != want || !errors.Is(err, failed) {
				t.Errorf("%s: printed %q, error %v, want %q and the error", takes, got, err, want)
			}
		})
	}
}

// TestBootProgress: on a terminal, the first command that attaches after a reboot says what it removes.
func TestBootProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stderr bytes.Buffer
		p := (&settings{}).waiting(&stderr, hook.Request{ID: "web-1", Primary: &selection.Element{Name: "web"}})
		p.columns = 100
		_, err := (&settings{}).reported(p, func() (*hook.Allocation, error) {
			for range 250 {
				p.Observe(hook.Observation{Op: hook.OpCleanup, Reason: hook.ReasonBoot})
			}
			time.Sleep(quietTime + time.Millisecond)
			return nil, nil
		})
		const want = eraseLine + "allocnet: web-1: waiting for the plugins of web: 250 of earlier boots removed, 2s" + eraseLine
		if got := stderr.String(); err != nil || got != want {
			t.Errorf("printed %q, %v, want %q", got, err, want)
		}
	})
}

// TestProgress: a terminal has a line that changes and is gone at the end, from two seconds on.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stderr bytes.Buffer
		p := &progress{w: &stderr, columns: 40, doing: "gc"}
		end := p.begin()
		want := func(text string) {
			t.Helper()
			synctest.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			if got := stderr.String(); got != text {
				t.Errorf("printed %q, want %q", got, text)
			}
			stderr.Reset()
		}
		time.Sleep(1900 * time.Millisecond)
		p.Observe(hook.Observation{Op: hook.OpDetach})
		p.Observe(hook.Observation{Op: hook.OpCleanup, Objects: 4})
		p.Observe(hook.Observation{Op: hook.OpDetach, Err: errors.New("failed")})
		want("")
		time.Sleep(200 * time.Millisecond)
		want(eraseLine + "allocnet: gc: 5 removed, 2s")
		_, _ = fmt.Fprintln(p, "a warning")
		want(eraseLine + "a warning\n")
		p.step("cleaned up after 1000 of 3000 allocations", false)
		time.Sleep(progressInterval)
		want(eraseLine + "allocnet: gc: cleaned up after 1000 of…")
		end()
		want(eraseLine)
		end()
		time.Sleep(time.Minute)
		want("")
	})
}

// TestNoProgress: a pipe has a line for each step, and --json none.
func TestNoProgress(t *testing.T) {
	for asJSON, want := range map[bool]string{false: "allocnet: 1 of 2\nallocnet: 2 of 2\n", true: ""} {
		var stderr strings.Builder
		p, end := (&settings{json: asJSON}).progress(&stderr, "gc")
		p.step("1 of 2", asJSON)
		p.step("2 of 2", asJSON)
		end()
		if stderr.String() != want {
			t.Errorf("with JSON %v: %q, want %q", asJSON, stderr.String(), want)
		}
	}
}
