// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// TestRuleHandles: the handles of the rules of an attachment are on record, and DEL removes these rules alone, also after a
// reload that gives the handles to those of others.
func TestRuleHandles(t *testing.T) {
	t.Setenv("ALLOCNET_EXECUTOR", "auto")
	sandbox.FlushRules(t) // other tests leave what all share, which this one removes
	h := newHost(t)
	h.changedNetwork(changedBridge+`, "ipMasqBackend": "nftables"`, `, {"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": true}}`)
	defer sandbox.Run(t, "sh", "-ec", "ip link del change0; nft delete table inet cni_plugins_masquerade; nft delete table ip cni_hostport")
	e := h.engine(nil)
	ids := []string{"handles-a", "handles-b", "handles-c"}
	for i, id := range ids {
		_, err := e.Setup(t.Context(), hook.Request{
			ID: id, Primary: &selection.Element{Name: "changed"},
			Ports: []portmap.Port{{Label: "http", HostPort: 21000 + i, To: 80, Protocol: "tcp"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	store, err := state.Open(h.state)
	if err != nil {
		t.Fatal(err)
	}
	record, err := store.Read(ids[1])
	if err != nil {
		t.Fatal(err)
	}
	var recorded []string
	for _, handles := range record.Attachments[0].RuleHandles {
		for _, handle := range handles {
			recorded = append(recorded, fmt.Sprint(handle))
		}
	}
	var present []string
	for _, found := range regexp.MustCompile(`comment "(?:[^"]* id: )?`+ids[1]+`" # handle (\d+)`).FindAllStringSubmatch(sandbox.Run(t, "nft", "-a", "list", "ruleset"), -1) {
		present = append(present, found[1])
	}
	slices.Sort(recorded)
	slices.Sort(present)
	if len(present) != 4 || !slices.Equal(recorded, present) {
		t.Errorf("handles on record are %v, of its rules %v, want four", recorded, present)
	}
	teardown := func(id string, left int) {
		t.Helper()
		if err := e.Teardown(t.Context(), id); err != nil {
			t.Error(err)
		}
		if rules := regexp.MustCompile(`comment "[^"]*handles-`).FindAllString(sandbox.Run(t, "nft", "list", "ruleset"), -1); len(rules) != left {
			t.Errorf("without %s %d rules are left, want %d", id, len(rules), left)
		}
	}
	teardown(ids[0], 8)
	sandbox.Run(t, "sh", "-ec", `for table in "inet cni_plugins_masquerade" "ip cni_hostport"; do rules=$(nft list table $table); nft delete table $table; echo "$rules" | nft -f -; done`)
	teardown(ids[1], 4)
	teardown(ids[2], 0)
}
