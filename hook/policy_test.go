// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// TestPolicy denies before any plugin runs, and leaves nothing on record.
func TestPolicy(t *testing.T) {
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("plugin", fmt.Sprintf("#!/bin/sh\ntouch %s\nexit 1\n", ran), 0o700)
	write("a.conf", `{"cniVersion": "1.0.0", "name": "a", "type": "plugin", "allocnet": {"namespaces": ["prod"], "staticIPs": false, "staticMAC": false}}`, 0o600)
	write("b.conf", `{"cniVersion": "1.0.0", "name": "b", "type": "plugin", "allocnet": {"namespace": "typo"}}`, 0o600)
	write("policy", `{"jobs": ["!bad"]}`, 0o600)
	e, err := NewEngine(Config{ConfDirs: []string{dir}, PluginDirs: []string{dir}, StateDir: dir + "/state", CacheDir: dir + "/cache", PolicyFile: dir + "/policy"})
	if err != nil {
		t.Fatal(err)
	}
	prod := policy.Identity{Namespace: "prod", Job: "good"}
	for name, test := range map[string]struct {
		who     policy.Identity
		element selection.Element
		rule    string
	}{
		"namespace":             {policy.Identity{Namespace: "dev", Job: "good"}, selection.Element{Name: "a"}, "namespaces"},
		"job, by the host":      {policy.Identity{Namespace: "prod", Job: "bad"}, selection.Element{Name: "a"}, "jobs"},
		"addresses":             {prod, selection.Element{Name: "a", IPs: []string{"10.0.0.1/24"}}, "staticIPs"},
		"addresses in the args": {prod, selection.Element{Name: "a", CNIArgs: map[string]any{"IPs": "10.0.0.1"}}, "staticIPs"},
		"MAC in the args":       {prod, selection.Element{Name: "a", CNIArgs: map[string]any{"mac": "02:00:00:00:00:01"}}, "staticMAC"},
		"GUID":                  {prod, selection.Element{Name: "a", InfinibandGUID: "02:00:00:00:00:00:00:01"}, "staticMAC"},
		"GUID in the args":      {prod, selection.Element{Name: "a", CNIArgs: map[string]any{"guid": "02:00:00:00:00:00:00:01"}}, "staticMAC"},
		"a mistyped rule":       {prod, selection.Element{Name: "b"}, ""},
	} {
		_, err := e.Setup(context.Background(), Request{ID: "x", Netns: "/proc/self/ns/net", Identity: test.who, Networks: []selection.Element{test.element}})
		var denied *policy.DeniedError
		switch {
		case errors.As(err, &denied) && denied.Rule == test.rule:
		case err != nil && test.rule == "" && denied == nil:
		default:
			t.Errorf("%s: %v, want a denial by %q", name, err, test.rule)
		}
		if _, err := os.Stat(ran); err == nil {
			t.Fatalf("%s: a plugin ran", name)
		}
		if _, err := e.Status(context.Background(), "x"); !errors.Is(err, state.ErrNotFound) {
			t.Errorf("%s: on record: %v", name, err)
		}
	}
	_, err = e.Setup(context.Background(), Request{ID: "x", Netns: "/nowhere", Identity: prod, Networks: []selection.Element{{Name: "a"}}})
	if !errors.Is(err, netns.ErrMissing) { // all else is as it has to be
		t.Errorf("allowed: %v", err)
	}
}
