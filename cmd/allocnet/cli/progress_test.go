// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/hook"
)

// TestBootProgress: on a terminal, the first command that attaches after a reboot says what it removes.
func TestBootProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stderr bytes.Buffer
		p := NewProgress(&stderr, "web-1: waiting for the plugins of web")
		p.columns = 100
		_, err := (&Settings{}).Reported(p, func() (*hook.Allocation, error) {
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
		p := &Progress{w: &stderr, columns: 40, doing: "gc"}
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
		p.Step("cleaned up after 1000 of 3000 allocations", false)
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
		p, end := (&Settings{JSON: asJSON}).Progress(&stderr, "gc")
		p.Step("1 of 2", asJSON)
		p.Step("2 of 2", asJSON)
		end()
		if stderr.String() != want {
			t.Errorf("with JSON %v: %q, want %q", asJSON, stderr.String(), want)
		}
	}
}
