// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package remove

import (
	"fmt"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/state"
)

// TestValidAttachments: GC keeps what is on record, and of libcni's cache what
// another runtime has, and what has a namespace that exists.
func TestValidAttachments(t *testing.T) {
	e, err := operation.NewEnv(config.Config{StateDir: t.TempDir(), CacheDir: t.TempDir()}, state.Open)
	if err != nil {
		t.Fatal(err)
	}
	const own = "/proc/thread-self/ns/net"
	attachment := func(id, marker string) state.Attachment {
		list := fmt.Appendf(nil, `{"cniVersion": "1.1.0", "name": "n"%s, "plugins": [{"type": "fakecni"}]}`, marker)
		return state.Attachment{Network: "n", Interface: "eth0", Batch: onrecord.SetupBatch, ContainerID: id, Phase: state.Attached, ConfList: list, Result: []byte(`{"cniVersion": "1.1.0"}`)}
	}
	const ours = `, "allocnet": {"attachment": {"index": 0, "batch": {"kind": "setup"}}}`
	for id, test := range map[string]struct{ netns, marker string }{
		"ours-alive": {own, ours}, "ours-gone": {"/nowhere", ours}, "theirs-alive": {own, ""}, "theirs-gone": {"/nowhere", ""},
	} {
		if err := e.Config.Cache().Write(attachment(id, test.marker), test.netns); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := e.Store.Lock(t.Context(), "recorded")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	if err := lock.Begin(state.Allocation{ID: "recorded", Mode: state.ModeSetup}, []state.Attachment{attachment("recorded", "")}); err != nil {
		t.Fatal(err)
	}
	valid, err := validAttachments(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, a := range valid["n"] {
		ids = append(ids, a.ContainerID)
	}
	slices.Sort(ids)
	if want := []string{"ours-alive", "recorded", "theirs-alive", "theirs-gone"}; !slices.Equal(ids, want) {
		t.Errorf("got %v, want %v", ids, want)
	}
}
