// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"testing"

	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
)

// TestAttachedWithTheIdentity: plugins are told whose an allocation is, also by a call that does
// not know it.
func TestAttachedWithTheIdentity(t *testing.T) {
	m := newMemory(t, nil)
	m.network(t, "web", "bridge")
	m.network(t, "storage", "macvlan")
	identity := policy.Identity{Namespace: "prod", Job: "db", Group: "main", Region: "eu"}
	if _, err := m.Setup(t.Context(), Request{ID: "a1", Identity: identity, Primary: &selection.Element{Name: "web", Interface: "eth0"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Extend(t.Context(), Request{ID: "a1", Networks: []selection.Element{{Name: "storage"}}}); err != nil {
		t.Fatal(err)
	}
	const want = "IgnoreUnknown=true;NOMAD_ALLOC_ID=a1;NOMAD_GROUP_NAME=main;NOMAD_JOB_ID=db;NOMAD_NAMESPACE=prod;NOMAD_REGION=eu"
	for _, c := range m.exec.calls {
		if got := c.Environ["CNI_ARGS"]; got != want {
			t.Errorf("%s: CNI_ARGS is %s, want %s", c, got, want)
		}
	}
}
