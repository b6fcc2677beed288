// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"fmt"
	"strings"
	"testing"
)

// TestCheckLimits: each direction has one limit, which is the plugin's own before that of an attachment; hook.TestTwoLimitsAreRefused
// has all ways.
func TestCheckLimits(t *testing.T) {
	const (
		asks    = `{"type": "bandwidth", "capabilities": {"bandwidth": true}}`
		deaf    = `{"type": "bandwidth"}`
		ingress = `{"type": "bandwidth", "capabilities": {"bandwidth": true}, "ingressRate": 8000000, "ingressBurst": 800000}`
		egress  = `{"type": "bandwidth", "egressRate": 8000000, "egressBurst": 800000}`
		none    = `{"type": "bandwidth", "capabilities": {"bandwidth": true}, "ingressRate": 0}`
	)
	for plugins, want := range map[string][4]string{ // without asking, ingress, egress, both
		ingress + egress:         {},
		ingress + ingress:        {"ingress", "ingress", "ingress", "ingress"},
		egress + deaf + egress:   {"egress", "egress", "egress", "egress"},
		ingress + asks:           {"", "ingress", "", "ingress"},
		egress + asks:            {"", "", "egress", "egress"},
		asks + asks:              {"", "ingress", "egress", "ingress"},
		asks + deaf + none:       {},
		ingress + none + deaf:    {},
		asks + `{"type": "tap"}`: {},
	} {
		n, err := ParseNetwork("n.conflist", fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "bridge"}, %s]}`, strings.ReplaceAll(plugins, "}{", "},{")))
		if err != nil {
			t.Fatal(err)
		}
		for i, asked := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
			err := CheckLimits(n, asked[0], asked[1])
			if (err != nil) != (want[i] != "") || err != nil && !strings.Contains(err.Error(), "n.conflist: 2 plugins bandwidth limit "+want[i]) {
				t.Errorf("%s, asked %v: %v, want %q", plugins, asked, err, want[i])
			}
		}
	}
}
