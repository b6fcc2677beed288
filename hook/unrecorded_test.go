// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// TestUndoOfUnrecorded: a Setup that is refused before it records an attachment
// runs no plugin, whatever libcni's cache has of the allocation.
func TestUndoOfUnrecorded(t *testing.T) {
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	list := fakeList(t, "n", fakecni.Script{Log: calls})
	e := fakeEngine(t, func(c *Config) { c.ConfDirs = []string{dir}; c.PolicyFile = dir + "/none" })
	if err := os.WriteFile(filepath.Join(dir, "n.conflist"), list, 0o600); err != nil {
		t.Fatal(err)
	}
	a := state.Allocation{ID: "a", Mode: state.ModeSetup, Netns: ownNetns}
	o := e.env.On(state.Record{Allocation: a})
	cached := state.Attachment{Network: "n", Interface: "eth9", Batch: onrecord.SetupBatch, ContainerID: "a", ConfList: mark(t, list, a), Result: []byte(`{"cniVersion": "1.1.0"}`)}
	if err := o.Config.Cache().Write(cached, o.Record.Allocation.Netns); err != nil {
		t.Fatal(err)
	}
	_, err := e.Setup(context.Background(), Request{ID: "a", Netns: a.Netns, Networks: []selection.Element{{Name: "n", Interface: loopback.Name}}})
	if errdefs.Of(err) != errdefs.Conflict || !strings.Contains(err.Error(), "exists already in "+ownNetns) {
		t.Errorf("%v, want that the interface exists", err)
	}
	if _, err := os.Stat(calls); err == nil {
		t.Error("a plugin was called")
	}
}
