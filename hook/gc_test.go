// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/internal/fakecni"
)

// collectingEngine has one network, whose plugin has GC from version 1.1.0 on.
func collectingEngine(t *testing.T, version string, script fakecni.Script) *Engine {
	t.Helper()
	return fakeEngine(t, func(c *Config) {
		text := strings.Replace(string(fakeList(t, "n", script)), "1.1.0", version, 1)
		if err := os.WriteFile(filepath.Join(c.ConfDirs[0], "n.conflist"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	})
}

// strangerOn is a host on which a container of another runtime may live.
func strangerOn(network string) func(context.Context, GCRequest, cleanup.Live) (*cleanup.Report, error) {
	owner := cleanup.Owner{Network: network, Allocation: "c1", ContainerID: "c1", Interface: "eth0"}
	return func(context.Context, GCRequest, cleanup.Live) (*cleanup.Report, error) {
		return &cleanup.Report{Decisions: []cleanup.Decision{{Object: cleanup.Object{Owner: owner}}}}, nil
	}
}

// TestGCWhileAttaching: with something in flight GC is skipped, and what comes
// begins at once.
func TestGCWhileAttaching(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	for version, want := range map[string]string{"1.0.0": "has no GC", "1.1.0": "attachments are in flight"} {
		e := collectingEngine(t, version, fakecni.Script{})
		slow, err := e.env.Store.RLockHost(ctx)
		if err != nil {
			t.Fatal(err)
		}
		c, err := e.GC(ctx, GCRequest{})
		if err != nil || !strings.Contains(c.Skipped["n"], want) {
			t.Errorf("%s: skipped %v, %v, want %q", version, c.Skipped, err, want)
		}
		again, err := e.env.Store.RLockHost(ctx)
		if err != nil {
			t.Fatalf("%s: attaching after GC: %v", version, err)
		}
		again()
		slow()
	}
}

// TestGCIsInterrupted by an attachment, although its plugin hangs.
func TestGCIsInterrupted(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	begun := filepath.Join(t.TempDir(), "begun")
	e := collectingEngine(t, "1.1.0", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"GC": {Mark: begun, Hang: true}}})
	e.leaks = strangerOn("n")
	collected := make(chan error, 1)
	go func() {
		c, err := e.GC(ctx, GCRequest{})
		if err == nil && (len(c.Networks) > 0 || !strings.Contains(c.Skipped["n"], "interrupted by an attachment")) {
			err = fmt.Errorf("GC ran on %v and skipped %v", c.Networks, c.Skipped)
		}
		collected <- err
	}()
	for {
		if _, err := os.Stat(begun); err == nil || ctx.Err() != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	unlock, err := e.env.Store.RLockHost(ctx)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := <-collected; err != nil {
		t.Error(err)
	}
}

// TestGCKeepsTheDamaged: of an allocation that lives and whose record is damaged
// the plugins of a network are not told that they may free what they gave it.
func TestGCKeepsTheDamaged(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls")
	e := collectingEngine(t, "1.1.0", fakecni.Script{Log: calls})
	e.leaks = strangerOn("n")
	setUp(t, e, fakecni.Behaviour{}, nil)
	path := filepath.Join(e.env.Config.StateDir, "allocations", "a1", "journal")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	lines[1] = "{}\n" // its attachment to network n
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := e.GC(t.Context(), GCRequest{})
	if log, _ := os.ReadFile(calls); strings.Contains(string(log), "GC") {
		t.Errorf("collected %+v, %v, although it is not known what a1 has", c, err)
	}
}
