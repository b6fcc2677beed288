// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/state"
)

// TestIsolation: a mistake in the rules, networks of two levels on one bridge, and an agent that is missing where it is needed are told.
func TestIsolation(t *testing.T) {
	const network = `{"cniVersion": "1.0.0", "name": %q, "allocnet": {%s}, "plugins": [{"type": "bridge", "bridge": %q, "isGateway": true, "ipam": {"type": "static"}}]}`
	for name, test := range map[string]struct {
		rules, level, bridge string
		want                 []string
	}{
		"nothing is isolated": {},
		"strict":              {level: `"isolation": "strict"`, want: []string{"no agent answers"}},
		"one bridge":          {level: `"isolation": "strict"`, bridge: "br0", want: []string{"has the bridge br0", "has the bridge br0", "no agent answers"}},
		"a mistake":           {rules: "allow \"a\" {\n  form {}\n}\n", want: []string{"isolation.hcl:2"}},
		"allow":               {rules: "allow \"a\" {\n  from { namespace = \"a\" }\n  to { namespace = \"a\" }\n}\n", want: []string{"no agent answers"}},
		"egress":              {rules: "egress \"a\" {\n  from { namespace = \"batch\" }\n  to { cidrs = [\"10.0.0.0/8\"] }\n}\n", want: []string{"no agent answers"}},
	} {
		file := filepath.Join(t.TempDir(), "isolation.hcl")
		if test.rules != "" {
			if err := os.WriteFile(file, []byte(test.rules), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		bridge := "br1"
		if test.bridge != "" {
			bridge = test.bridge
		}
		networks := load(t, map[string]string{"a.conflist": fmt.Sprintf(network, "a", test.level, "br0"), "b.conflist": fmt.Sprintf(network, "b", "", bridge)})
		d, r := &Doctor{IsolationFile: file, AgentSilent: func(context.Context) error { return errors.New("no such file") }}, &Report{}
		d.isolation(t.Context(), r, networks)
		for i, f := range r.Findings {
			if i >= len(test.want) || !strings.Contains(f.Problem, test.want[i]) {
				t.Errorf("%s: found %+v, want %q", name, f, test.want)
			}
		}
		if len(r.Findings) != len(test.want) {
			t.Errorf("%s: found %+v, want %q", name, r.Findings, test.want)
		}
	}
}

// TestEnforcedInside: what a network that is isolated inside is not protected from is told.
func TestEnforcedInside(t *testing.T) {
	networks := load(t, map[string]string{
		"a.conflist": `{"cniVersion": "1.0.0", "name": "a", "allocnet": {"isolation": "strict", "enforce": "inside"}, "plugins": [{"type": "macvlan", "ipam": {"type": "static"}}]}`,
		"b.conflist": `{"cniVersion": "1.0.0", "name": "b", "plugins": [{"type": "macvlan", "ipam": {"type": "static"}}]}`,
	})
	r := &Report{}
	(&Doctor{IsolationFile: filepath.Join(t.TempDir(), "none")}).isolation(t.Context(), r, networks)
	if len(r.Findings) != 1 || r.Findings[0].Severity != Warning || !strings.Contains(r.Findings[0].Problem, `network "a" is isolated inside of allocations: what a task sends and gets with CAP_NET_ADMIN or CAP_NET_RAW`) {
		t.Errorf("found %+v", r.Findings)
	}
}

// TestLearned: it is told that attachments on other hosts are not learned of any more, and not that they were learned of shortly before.
func TestLearned(t *testing.T) {
	store, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for pool, age := range map[string]time.Duration{"new": time.Minute, "old": 3 * time.Hour} {
		if err := store.Isolation().SetLearned(pool, []byte("[]"), time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	r := &Report{}
	(&Doctor{Store: store}).learned(r)
	if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Problem, "of pool old are known as they were 3h0m0s ago") {
		t.Errorf("found %+v", r.Findings)
	}
}
