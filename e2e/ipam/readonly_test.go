// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestReadOnlyLeases: DEL and GC that cannot remove a lease fail, so that the runtime repeats
// them, and STATUS says that there is trouble.
func TestReadOnlyLeases(t *testing.T) {
	p := newPool(t, hundred)
	address := p.mustAdd(call{id: "c1"})[0]
	p.age(address)
	sandbox.Run(t, "mount", "--bind", p.data, p.data)
	defer sandbox.Run(t, "umount", p.data)
	sandbox.Run(t, "mount", "-o", "remount,bind,ro", p.data)
	for _, c := range []call{{verb: "DEL", id: "c1"}, {verb: "GC", keys: map[string]any{"cni.dev/valid-attachments": []any{}}}} {
		_, err := p.run(c)
		requireCode(t, err, types.ErrIOFailure, "read-only file system")
	}
	_, err := p.run(call{verb: "STATUS"})
	requireCode(t, err, types.ErrPluginNotAvailable, "read-only file system")
	sandbox.Run(t, "mount", "-o", "remount,bind,rw", p.data)
	p.mustRun(call{verb: "DEL", id: "c1"})
}
