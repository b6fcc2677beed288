// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// forgetRegistration lets the host have been registered for long: soon after that nothing is
// given back.
func (h *host) forgetRegistration() {
	h.Helper()
	for _, dir := range []string{h.options.Config.StateDir, h.options.Config.RunDir} {
		path := filepath.Join(dir, "ipam", "node.json")
		data, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		h.requireNo(err)
		var node map[string]any
		h.requireNo(json.Unmarshal(data, &node))
		if registered, ok := node["registered"].(map[string]any); ok {
			registered["uptime"] = 0
		}
		data, err = json.Marshal(node)
		h.requireNo(errors.Join(err, os.WriteFile(path, data, 0o600)))
	}
}

// release gives back all blocks without leases: a copy of this host could have objected for long.
func (h *host) release(ctx context.Context) ([]ipam.Block, error) {
	if released, err := h.blocks.Release(ctx, 0, 0); len(released) > 0 || err != nil {
		return released, err
	}
	path := filepath.Join(h.options.Config.StateDir, "ipam", "pools", h.options.Config.Pool, "blocks.json")
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	data = regexp.MustCompile(`("offered":{"time":"[^"]*","uptime":)`).ReplaceAll(data, []byte("$1-"))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return nil, err
	}
	return h.blocks.Release(ctx, 0, 0)
}

// TestRestoredState: a block that was given back after the backup of the state directory is not
// used again when it is restored, without an agent.
func TestRestoredState(t *testing.T) {
	store, config := newStore(), `"cooldown": "0s", "ranges": [{"subnet": "10.0.0.0/29"}], "blockSize": {"4": 29}`
	h, other := newHost(t, store, 1, config), newHost(t, store, 2, config)
	h.clock = time.Now() // blocks have the kernel's
	h.requireAdd("a", "10.0.0.2")
	h.del("a")
	state, backup := h.options.Config.StateDir, t.TempDir()
	h.requireNo(os.CopyFS(backup, os.DirFS(filepath.Join(state, "ipam"))))
	h.forgetRegistration()
	if released, err := h.release(t.Context()); len(released) != 1 || err != nil {
		t.Fatalf("released %v, error %v", released, err)
	}
	other.requireAdd("b", "10.0.0.2")
	h.requireNo(errors.Join(os.RemoveAll(filepath.Join(state, "ipam")), os.CopyFS(filepath.Join(state, "ipam"), os.DirFS(backup))))
	h.restart()
	if found, err := h.Add(t.Context(), ipam.Request{Owner: owner("c")}); !errors.Is(err, ipam.ErrExhausted) {
		t.Errorf("got %v, error %v", found, err)
	}
}
