// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/state"
)

const (
	first  = "5c2e9a0e-7a3c-4f5e-8a8e-0d4f9c1b2a33"
	second = "5c2e9a0e-8a3c-4f5e-8a8e-0d4f9c1b2a33"
	third  = "77777777-8a3c-4f5e-8a8e-0d4f9c1b2a33"
)

// recordIn returns a state directory with allocations, each with an attachment for each
// network, which is attached.
func recordIn(t *testing.T, allocations map[string][]string) string {
	t.Helper()
	dir := t.TempDir()
	store, err := state.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for id, networks := range allocations {
		lock, err := store.Lock(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		var attachments []state.Attachment
		for i, network := range networks {
			attachments = append(attachments, state.Attachment{
				Network: network, Interface: "net" + string(rune('0'+i)), Index: i, Batch: state.Batch{Kind: state.BatchSetup},
				Phase: state.Attached, ConfList: []byte(`{}`), Status: []byte(status),
			})
		}
		a := state.Allocation{ID: id, Mode: state.ModeSetup, Identity: state.Identity{Namespace: "prod", Job: "job-" + id}}
		if err := lock.Begin(a, attachments); err != nil {
			t.Fatal(err)
		}
		lock.Unlock()
	}
	return dir
}

const status = `{"addresses":["10.22.0.5/16"],"mac":"02:00:00:00:00:01","ports":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}`

// runs returns the exit code and the output of a command.
func runs(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = execute(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// TestPrefix: commands that show take every prefix that is unique.
func TestPrefix(t *testing.T) {
	dir := recordIn(t, map[string][]string{first: {"web"}, second: {"web"}, third: {"web"}, "web-1": {"web"}})
	for prefix, want := range map[string]string{"7": third, "5c2e9a0e-7": first, "we": "web-1"} {
		code, out, _ := runs(t, "status", prefix, "--state-dir", dir)
		if code != cli.ExitDone || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d\n%s", prefix, code, out)
		}
	}
	code, _, errs := runs(t, "status", "5c2e", "--state-dir", dir)
	if code != cli.ExitRefused || !strings.Contains(errs, first) || !strings.Contains(errs, second) {
		t.Errorf("two candidates: exit code %d\n%s", code, errs)
	}
	if code, _, _ := runs(t, "check", "5c2e", "--state-dir", dir); code != cli.ExitRefused {
		t.Errorf("check: exit code %d", code)
	}
	if code, _, _ := runs(t, "status", "8", "--state-dir", dir); code != cli.ExitNotSetUp {
		t.Errorf("none: exit code %d", code)
	}
}

// TestPrefixToRemove: only a prefix of an ID of Nomad, as long as tables show it,
// selects an allocation that is removed.
func TestPrefixToRemove(t *testing.T) {
	dir := recordIn(t, map[string][]string{first: {"web"}, second: {"web"}, third: {"web"}, "web-10": {"web"}, "12345678-x": {"web"}})
	engine, err := hook.NewEngine(hook.Config{StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		first: first, "77777777": third, "7777777": "7777777", "web-10": "web-10", "web-1": "web-1",
		"12345678": "12345678", "5c2e": "5c2e", "5c2e9a0e": "", "5c2e9a0e-8": second, "5c2e9a0e-9": "5c2e9a0e-9",
	} {
		got, err := resolveToRemove(&cli.Settings{}, &bytes.Buffer{}, engine, id)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v; want %q", id, got, err, want)
		}
	}
}
