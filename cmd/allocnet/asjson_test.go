// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
)

// TestErrorsOfTheCommandLineAreJSON, wherever --json is, in each command.
func TestErrorsOfTheCommandLineAreJSON(t *testing.T) {
	var each func(cmd *cobra.Command)
	each = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			each(child)
		}
		if cmd.DisableFlagParsing {
			return
		}
		path := strings.Fields(cmd.CommandPath())[1:]
		for _, more := range [][]string{{"--bogus", "--json"}, {"--json", "--bogus"}, {"--bogus", "--json=true"}, {"x", "--bogus", "--json", "--", "y"}} {
			var stdout, stderr bytes.Buffer
			args := slices.Concat(path, more)
			code := execute(t.Context(), args, &stdout, &stderr)
			var printed struct{ Code int }
			if err := json.Unmarshal(stderr.Bytes(), &printed); err != nil || code != cli.ExitRefused || printed.Code != code || stdout.Len() > 0 {
				t.Errorf("%q: exit code %d, %v: %s%s", args, code, err, stdout.String(), stderr.String())
			}
		}
	}
	each(newRoot(&cli.Settings{}))
	for _, args := range [][]string{{"attach", "--bogus", "--", "--json"}, {"attach", "--bogus", "--json=false"}, {"attach", "--bogus", "x--json"}} {
		var stderr bytes.Buffer
		if execute(t.Context(), args, &stderr, &stderr); !strings.HasPrefix(stderr.String(), "allocnet: ") {
			t.Errorf("%q asks for no JSON: %s", args, stderr.String())
		}
	}
	t.Setenv("ALLOCNET_JSON", "true")
	var stderr bytes.Buffer
	if execute(t.Context(), []string{"attach", "--bogus"}, &stderr, &stderr); !strings.HasPrefix(stderr.String(), "{") {
		t.Errorf("with ALLOCNET_JSON: %s", stderr.String())
	}
}

// TestUnknownTopics: what is asked for does not exist.
func TestUnknownTopics(t *testing.T) {
	for line, want := range map[string]int{
		"help": 0, "help attach": 0, "help conf generate": 0, "completion bash": 0, "completion": 0,
		"help bogus": cli.ExitRefused, "help conf bogus": cli.ExitRefused, "help attach x": cli.ExitRefused, "completion bogus": cli.ExitRefused,
	} {
		var out bytes.Buffer
		if got := execute(t.Context(), strings.Fields(line), &out, &out); got != want {
			t.Errorf("%s: exit code %d, want %d: %s", line, got, want, out.String())
		}
	}
}
