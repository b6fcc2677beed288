// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/nomad"
)

// TestGenerationForNomad: the conflist requires the agent where a job can select networks only through it, and the
// job that is printed is one that its Nomad accepts.
func TestGenerationForNomad(t *testing.T) {
	const meta, arguments, none = `"allocnet.networks" = "storage"`, `networks = "storage"`, "It cannot select other networks: in Nomad 1.6.2"
	for name, test := range map[string]struct {
		version nomad.Version
		flag    string // of --job-networks; empty: none
		agent   bool
		form    string
		unknown bool // the identity
	}{
		"an old one":               {nomad.Version{1, 6, 2}, "", true, meta, false},
		"an old one, no agent":     {nomad.Version{1, 6, 2}, "false", false, none, false},
		"jobs forge the identity":  {nomad.Version{1, 8, 2}, "", false, arguments, true},
		"a new one":                {nomad.Version{1, 9, 4}, "", false, arguments, false},
		"a new one with the agent": {nomad.Version{1, 9, 4}, "true", true, meta, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := generation{name: "multi", agentChosen: test.flag != "", jobNetworks: test.flag == "true"}
			g.adapt(test.version)
			m, err := g.multi(&cli.Settings{}, "web")
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Agent != nil && m.Agent.JobNetworks && m.Agent.Mode == "require"; got != test.agent || !test.agent && m.Agent != nil {
				t.Errorf("the agent is required: %+v, want %t", m.Agent, test.agent)
			}
			if got := m.Identity == identityUnknown; got != test.unknown {
				t.Errorf("the identity is unknown: %t, want %t", got, test.unknown)
			}
			text := g.selecting("storage", "storage")
			for _, form := range []string{meta, "cni {", none} {
				want := form == test.form || form == "cni {" && test.form == arguments
				if got := strings.Contains(text, form); got != want {
					t.Errorf("%q is in it: %t, want %t:\n%s", form, got, want, text)
				}
			}
			if !strings.Contains(text, test.form) || !strings.Contains(text, `mode = "cni/multi"`) {
				t.Errorf("want %s in:\n%s", test.form, text)
			}
		})
	}
}
