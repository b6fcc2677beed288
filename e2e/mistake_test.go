// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestMistakes: what is wrong on a command line is refused, with what would be right.
func TestMistakes(t *testing.T) {
	h := newHost(t)
	for want, args := range map[string][]string{
		`executor "fast": want "auto" or "plugins"`:                         {"status", "--executor", "fast"},
		`socket "agent.sock": want an absolute path`:                        {"agent", "--socket", "agent.sock"},
		"--quiet and --template: want one of them":                          {"status", "-q", "-t", "{{.}}"},
		"--format svg and one of --json, --quiet and --template: want one ": {"map", "--format", "svg", "--json"},
	} {
		h.refuse(2, []string{want}, args...)
	}
}

// TestMistakeInANetwork: a key that nothing reads keeps a network from being attached where
// allocnet would execute it. Where its plugins are installed they are executed, and may know it.
func TestMistakeInANetwork(t *testing.T) {
	h := newHost(t)
	installed := *h
	h.withoutPlugins()
	path := h.conf + "/86-mistaken.conflist"
	sandbox.WriteFile(t, path, `{"cniVersion": "1.0.0", "name": "mistaken", "plugins": [{"type": "bridge", "bridge": "web0",
		"isGatewy": true, "ipam": {"type": "host-local", "dataDir": "/run/mistaken", "ranges": [[{"subnet": "10.88.0.0/16"}]]}}]}`)
	want := `network "mistaken": unknown key "isGatewy" of bridge in ` + path + `:2; did you mean isGateway?`
	h.refuse(2, []string{"allocnet: " + want}, "attach", "m1", "--primary", "mistaken")
	for _, command := range []string{"networks", "doctor"} {
		if o := h.allocnet(command); o.code != 1 || !strings.Contains(o.stdout, want) {
			t.Errorf("%s: exit code %d, and not %q in\n%s%s", command, o.code, want, o.stdout, o.stderr)
		}
	}
	for _, command := range []string{"networks", "doctor"} {
		if o := installed.allocnet(command); !strings.Contains(o.stdout, want) {
			t.Errorf("%s with plugins: not %q in\n%s%s", command, want, o.stdout, o.stderr)
		}
	}
	installed.attach("m1", "--primary", "mistaken")
	installed.must("detach", "m1")
	sandbox.Run(t, "rm", "-r", "/run/mistaken")
}

// TestPolicyFailsClosed: a policy that cannot be read as it was meant allows nothing, and doctor
// and networks say so.
func TestPolicyFailsClosed(t *testing.T) {
	h := newHost(t)
	sandbox.Run(t, "mkdir", "-p", "/etc/allocnet")
	sandbox.Run(t, "mount", "-t", "tmpfs", "none", "/etc/allocnet")
	defer sandbox.Run(t, "umount", "/etc/allocnet")
	const file = "/etc/allocnet/policy.json"
	refused := func(want string, primary string) {
		t.Helper()
		h.refuse(2, []string{want}, "attach", "f1", "--primary", primary, "--namespace", "dev", "--job", "j")
		for _, command := range []string{"doctor", "networks"} {
			if o := h.allocnet(command); o.code == 0 || !strings.Contains(o.stdout+o.stderr, want) {
				t.Errorf("%s: exit code %d, and not %q in\n%s%s", command, o.code, want, o.stdout, o.stderr)
			}
		}
	}
	for text, want := range map[string]string{
		"": "want one JSON object", "null": "want one JSON object",
		`{"namespaces": ["prod"], "namespaces": ["*"]}`: `key "namespaces" of the policy in /etc/allocnet/policy.json:1 is there twice`,
		`{"namespaces": ["prod"], "Namespaces": null}`:  `key "Namespaces" of the policy in /etc/allocnet/policy.json:1 is there twice`,
		`{"namespace": ["prod"]}`:                       `unknown key "namespace" of the policy in /etc/allocnet/policy.json:1; did you mean namespaces?`,
	} {
		sandbox.WriteFile(t, file, text)
		refused(want, "web")
	}
	sandbox.Run(t, "ln", "-sf", "/nowhere/policy.json", file)
	refused("leads nowhere", "web")
	sandbox.Run(t, "rm", file)
	sandbox.WriteFile(t, h.conf+"/87-misplaced.conflist", `{"cniVersion": "1.0.0", "name": "misplaced", "plugins": [{"type": "bridge", "allocnet": {"namespaces": ["prod"]}}]}`)
	refused(`87-misplaced.conflist:1: the key "allocnet" has no effect there: want "allocnet" beside "plugins"`, "misplaced")
}

// TestRepairOfOneTwice: an allocation that is named twice is not taken for one that another
// call is changing.
func TestRepairOfOneTwice(t *testing.T) {
	h := newHost(t)
	h.attach("web-1", "--networks", "storage")
	if out := h.must("repair", "web-1", "web-1"); out != "Nothing is missing.\n" {
		t.Error(out)
	}
	h.must("detach", "web-1")
}
