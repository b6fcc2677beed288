// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/hostmap"
	"github.com/allocnet/allocnet/state"
)

// mapHost has records of allocations whose namespaces are gone, and two networks.
func mapHost(t *testing.T) {
	t.Helper()
	conf := t.TempDir()
	for _, name := range []string{"web", "idle"} {
		text := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "type": "bridge", "bridge": "none0"}`, name)
		if err := os.WriteFile(filepath.Join(conf, name+".conf"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("ALLOCNET_STATE_DIR", recordIn(t, map[string][]string{first: {"web", "storage"}, second: {"web"}, "web-1": {"storage"}}))
	t.Setenv("ALLOCNET_CONF_DIR", conf)
	t.Setenv("LC_ALL", "C.UTF-8")
}

// TestMapForms: each form, and what the filters leave.
func TestMapForms(t *testing.T) {
	mapHost(t)
	for _, test := range []struct {
		args  string
		has   string
		lacks string
	}{
		{"", "idle: web: storage: " + first + ": web-1:10.22.0.5/16:8080->80/tcp: ╭─", "\x1b"},
		{"--format text", "only on record: none0 is missing: its path is unknown", ""},
		{"--format svg", "<svg xmlns=:</svg>:" + first, "\x1b"},
		{"--format dot", `graph "host :network1 -- allocation0`, ""},
		{"--format json", `"drift": "none0 is missing":"id": "` + first, ""},
		{"--json", `"drift": "none0 is missing":"id": "` + first, ""},
		{"-q", first + "\n" + second + "\nweb-1\n", "host"},
		{"-q --allocation web", "web-1\n", first},
		{"--network storage", "storage:web-1: net1", "web  :" + second + ":idle: net0  web"},
		{"--network idle", "idle:0 allocations", "web:storage"},
		{"--job job-web-1", "web-1: storage:1 allocation,", "idle:" + first},
		{"--phase pending", "0 allocations", "web-1:idle"},
		{"-t {{.host}}{{range.networks}},{{.name}}={{.attachments}}{{end}}", ",idle=0,web=2,storage=2", "net0"},
	} {
		code, out, errs := runs(t, append([]string{"map"}, strings.Fields(test.args)...)...)
		if code != cli.ExitDone {
			t.Errorf("%s: exit code %d\n%s", test.args, code, errs)
		}
		for _, word := range strings.Split(test.has, ":") {
			if !strings.Contains(out, strings.TrimSpace(word)) {
				t.Errorf("%s does not show %q:\n%s", test.args, word, out)
			}
		}
		for _, word := range strings.Split(test.lacks, ":") {
			if word != "" && strings.Contains(out, word) {
				t.Errorf("%s shows %q:\n%s", test.args, word, out)
			}
		}
	}
}

// TestMapExitCodes: they are those of status.
func TestMapExitCodes(t *testing.T) {
	mapHost(t)
	for args, want := range map[string]int{
		"map --format png": cli.ExitRefused, "map --phase up": cli.ExitRefused, "map --format json --quiet": cli.ExitRefused, "map --format json --template x": cli.ExitRefused, "map --format svg --json": cli.ExitRefused,
		"map --format json --json": cli.ExitDone, "map web-1": cli.ExitRefused, "map --allocation none": cli.ExitNotSetUp,
		"map --allocation 5c2e9a0e": cli.ExitRefused, "map --conf-dir /none": cli.ExitDone, "map --allocation web-1": cli.ExitDone,
	} {
		if code, out, errs := runs(t, strings.Fields(args)...); code != want {
			t.Errorf("%s: exit code %d, want %d\n%s%s", args, code, want, out, errs)
		}
	}
	store, err := state.Open(os.Getenv("ALLOCNET_STATE_DIR"))
	if err != nil {
		t.Fatal(err)
	}
	lock, err := store.Lock(t.Context(), "web-2")
	if err != nil {
		t.Fatal(err)
	}
	odd := state.Attachment{Network: "web", Interface: "net0", Batch: state.Batch{Kind: state.BatchSetup}, Phase: state.Attached, ConfList: []byte(`{}`), Status: []byte(`{"addresses":5}`)}
	if err := lock.Begin(state.Allocation{ID: "web-2", Mode: state.ModeSetup}, []state.Attachment{odd}); err != nil {
		t.Fatal(err)
	}
	lock.Unlock()
	code, out, errs := runs(t, "map")
	status, _, _ := runs(t, "status")
	if code != status || code != cli.ExitFailed || !strings.Contains(out, first) || !strings.Contains(errs, "web-2") {
		t.Errorf("with a record that cannot be read: exit code %d, and %d of status\n%s%s", code, status, out, errs)
	}
}

// TestMapTerminal: a terminal has short IDs, and lines that fit.
func TestMapTerminal(t *testing.T) {
	m := &hostmap.Map{Host: "a", Networks: []hostmap.Network{}, Allocations: []hostmap.Allocation{{ID: first}, {ID: second}}}
	for _, test := range []struct {
		on     cli.Terminal
		locale string
		want   string
	}{
		{cli.Terminal{}, "C.UTF-8", "\n" + first + "\n"},
		{cli.Terminal{Columns: 80}, "C.UTF-8", "\n" + first[:10] + "\n"},
		{cli.Terminal{Columns: 80, Colours: true}, "C.UTF-8", "\n\x1b[1m" + first[:10] + "\x1b[0m\n"},
	} {
		t.Setenv("LC_ALL", test.locale)
		var out bytes.Buffer
		if err := (&mapFlags{}).view(m).Table(&out, test.on); err != nil || !strings.Contains(out.String(), test.want) {
			t.Errorf("%+v: %q, want %q, %v", test.on, out.String(), test.want, err)
		}
	}
}

// TestLocale: the first variable that is set decides.
func TestLocale(t *testing.T) {
	for _, test := range []struct {
		all, ctype, lang string
		want             bool
	}{{"", "", "", false}, {"", "", "de_DE.UTF-8", true}, {"C", "", "de_DE.UTF-8", false}, {"", "C.utf8", "C", true}, {"", "", "de_DE", false}} {
		t.Setenv("LC_ALL", test.all)
		t.Setenv("LC_CTYPE", test.ctype)
		t.Setenv("LANG", test.lang)
		if got := hasUTF8(); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

// TestMapJSON: the keys are an interface.
func TestMapJSON(t *testing.T) {
	mapHost(t)
	_, out, _ := runs(t, "map", "--json", "--allocation", "web-1")
	var m hostmap.Map
	if err := json.Unmarshal([]byte(out), &m); err != nil || len(m.Networks) != 1 || m.Networks[0].File != "" || m.Allocations[0].Attachments[0].Ports[0].HostPort != 8080 {
		t.Errorf("%v in %s", err, out)
	}
}
