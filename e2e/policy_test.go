// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestPolicy: the command line enforces the policy for the identity that its user states.
func TestPolicy(t *testing.T) {
	h := newHost(t)
	sandbox.WriteFile(t, h.conf+"/20-storage.conflist", `{"cniVersion": "1.0.0", "name": "storage", "allocnet": {"namespaces": ["prod"], "jobs": ["!test-*"], "maxAttachments": 1}, "plugins": [
		{"type": "bridge", "bridge": "storage0", "mtu": 1500, "ipam": {"type": "host-local", "subnet": "10.89.0.0/16"}}]}`)
	attach := []string{"attach", "p1", "--primary", "storage"}
	h.refuse(2, []string{"storage", "eth0", "namespace is unknown", "20-storage.conflist"}, attach...)
	h.refuse(2, []string{`namespace "dev"`}, append(attach, "--namespace", "dev", "--job", "db")...)
	h.refuse(2, []string{`job "test-1"`, `"jobs"`}, append(attach, "--namespace", "prod", "--job", "test-1")...)
	h.refuse(2, []string{"maxAttachments"}, append(attach, "--namespace", "prod", "--job", "db", "--networks", "storage")...)
	a := h.attach("p1", "--primary", "storage", "--namespace", "prod", "--job", "db")
	if a.Identity.Namespace != "prod" || a.Identity.Job != "db" {
		t.Errorf("on record: %+v", a.Identity)
	}
	h.must("detach", "p1")
	output := h.must("networks")
	for _, word := range []string{"namespaces prod; jobs !test-*; at most 1", "unrestricted", "policy of this host"} {
		if !strings.Contains(output, word) {
			t.Errorf("networks does not say %q:\n%s", word, output)
		}
	}
}
