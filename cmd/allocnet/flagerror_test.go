// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
)

// TestFlagError: what is wrong with a flag says what would be right.
func TestFlagError(t *testing.T) {
	t.Setenv("ALLOCNET_CALL_TIMEOUT", "1m")
	for args, want := range map[string]string{
		"repair --dryrun":                 `unknown flag: --dryrun; did you mean --dry-run? (see: allocnet repair --help)`,
		"map --quite":                     `did you mean --quiet?`,
		"repair --mode rules":             `unknown flag: --mode (see: allocnet repair --help)`,
		"repair -x":                       `unknown shorthand flag: 'x' in -x (see: allocnet repair --help)`,
		"events --after -1":               `--after "-1": want a whole number, 0 or more (see: allocnet events --help)`,
		"ui --port http":                  `--port "http": want a whole number`,
		"repair --call-timeout 5":         `--call-timeout "5": want a duration, such as 90s or 5m`,
		"capture a --seconds 10000000000": `--seconds 10000000000: want 0 or more, and 1000000000 seconds at most`,
		"capture a --count -1":            `--count -1, --seconds 0: want 0 or more`,
		"repair --dry-run=maybe":          `--dry-run "maybe": want true or false`,
		"repair --dry-run --reattach":     `--dry-run and --reattach: want one of them`,
		"agent --check-config --prepare":  `--check-config and --prepare: want one of them`,
		"detach a --network=":             `--network is empty: want one, or omit it to detach all`,
		"detach a --interface=":           `--interface is empty: want one, or omit it to detach all`,
		"attach a --file b --networks \t": `--file and --networks: want one of them`,
	} {
		if code, _, errs := runs(t, strings.Split(args, " ")...); code != cli.ExitRefused || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %s, want %s", args, code, errs, want)
		}
	}
	t.Setenv("ALLOCNET_CALL_TIMEOUT", "10")
	if code, _, errs := runs(t, "status"); code != cli.ExitRefused || !strings.Contains(errs, `ALLOCNET_CALL_TIMEOUT="10": want a duration, such as 90s or 5m`) {
		t.Errorf("of the environment: exit code %d, %s", code, errs)
	}
}
