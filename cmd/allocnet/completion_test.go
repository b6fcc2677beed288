// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
)

// TestCompletion: what a shell gets for the word after the arguments.
func TestCompletion(t *testing.T) {
	dir := recordIn(t, map[string][]string{first: {"web"}, "web-1": {"web", "storage"}, "web-2": {"web"}})
	conf := t.TempDir()
	for _, name := range []string{"web", "storage"} {
		text := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "type": "dummy"}`, name)
		if err := os.WriteFile(filepath.Join(conf, name+".conf"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("ALLOCNET_STATE_DIR", dir)
	t.Setenv("ALLOCNET_CONF_DIR", conf)
	for _, test := range []struct{ args, want string }{
		{"status ", first + " web-1 web-2"},
		{"status web", "web-1 web-2"},
		{"ls 5c2", first},
		{"status web-1 ", ""},
		{"rm web-1 --interface ", "net0 net1"},
		{"detach --interface ", ""},
		{"check w", "web-1 web-2"},
		{"cleanup 5", first},
		{"attach x --primary ", "storage web"},
		{"attach x --networks web,st", "web,storage"},
		{"run --networks ", "storage web"},
		{`attach x --networks [{"name":"web","ports":["http","admin"]},{"name":"storage","ports":["http"]}] --publish `, "admin= http="},
		{`attach x --networks [{ --publish `, ""},
		{"gc --network w", "web"},
		{"networks s", "storage"},
		{"conf generate ", "storage web"},
		{"status --job ", "job-" + first + " job-web-1 job-web-2"},
		{"status --namespace ", "prod"},
		{"status --phase a", "adding attached"},
		{"status --log-level d", "debug"},
		{"map --allocation w", "web-1 web-2"},
		{"map --network s", "storage"},
		{"map --format ", "text svg dot json"},
		{"map ", ""},
		{"policy show w", "web-1 web-2"},
		{"policy test h", "host"},
		{"policy test host w", "web-1: web-2:"},
		{"policy test host web-1:80 ", ""},
	} {
		code, out, _ := runs(t, append([]string{"__complete"}, strings.Split(test.args, " ")...)...)
		values := strings.Fields(out)
		if code != cli.ExitDone || len(values) == 0 || strings.Join(values[:len(values)-1], " ") != test.want {
			t.Errorf("%q: exit code %d, %q, want %q", test.args, code, values, test.want)
		}
	}
	if _, out, _ := runs(t, "__complete", "ipam", "release", "--node", ""); out != ":4\n" { // no file names
		t.Errorf("a node: %q", out)
	}
	t.Setenv("ALLOCNET_WATCH", "soon")
	if code, out, _ := runs(t, "__complete", "status", ""); code != cli.ExitDone || strings.Contains(out, "web") {
		t.Errorf("with an invalid environment: exit code %d, %s", code, out)
	}
}

// TestMistyped: a mistyped command is refused with the one that it is like.
func TestMistyped(t *testing.T) {
	for args, want := range map[string]string{
		"statsu":       `unknown command "statsu"; did you mean status? (see: allocnet --help)`,
		"dettach a":    `did you mean attach or detach?`,
		"conf genrate": `did you mean generate? (see: allocnet conf --help)`,
		"retry":        `unknown command "retry" (see: allocnet --help)`, // hidden
		"x":            `unknown command "x" (see: allocnet --help)`,
	} {
		if code, _, errs := runs(t, strings.Fields(args)...); code != cli.ExitRefused || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %s, want %s", args, code, errs, want)
		}
	}
}

// TestHelp: every command is in a group.
func TestHelp(t *testing.T) {
	root := newRoot(&cli.Settings{})
	for _, command := range root.Commands() {
		if command.IsAvailableCommand() && command.GroupID == "" && command.Name() != "help" && command.Name() != "completion" {
			t.Errorf("%s is in no group", command.Name())
		}
	}
	if _, out, _ := runs(t, "--help"); strings.Contains(out, "Additional Commands:") {
		t.Errorf("commands are in no group:\n%s", out)
	}
}

// TestVersion: the command and the flag agree.
func TestVersion(t *testing.T) {
	_, command, _ := runs(t, "version")
	_, flag, _ := runs(t, "--version")
	if command != flag || !strings.Contains(command, "commit ") || !strings.Contains(command, "1.1.0") || !strings.Contains(command, "state format: 3") {
		t.Errorf("version prints\n%s--version\n%s", command, flag)
	}
	if _, out, _ := runs(t, "version", "--json"); !strings.Contains(out, `"stateFormat": 3`) || !strings.Contains(out, `"1.1.0"`) {
		t.Errorf("version --json prints %s", out)
	}
}
