// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// FuzzFiles: whatever a lease, its name, the index of owners and the history contain, no address
// with a lease is given out, and an attachment gets one of the pool or an error.
func FuzzFiles(f *testing.F) {
	f.Add("10.0.0.3", []byte("x\r\neth0"), []byte{1, 2, 3}, []byte("\n"))
	f.Add("10.0.0.2", []byte(""), []byte(strings.Repeat("\xff", 64)), []byte("\n\"a\\r\\neth0\" \"10.0.0.2\"\n1 2 3 00000000\n"))
	f.Add("last_reserved_ip.0", []byte("a\r\neth0"), []byte(strings.Repeat("\xff\xff\xff\xff\xff\xff\xff\x7f", 8)), []byte("x"))
	f.Add("::ffff:10.0.0.4", []byte("a\r\neth0"), []byte(strings.Repeat("\x00\x00\x00\x00\x00\x00\x00\x80", 8)), []byte(""))
	f.Fuzz(func(t *testing.T, name string, lease, history, index []byte) {
		h := newHost(t, small)
		dir := filepath.Join(h.config.DataDir, "p")
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.MkdirAll(h.dir, 0o755)); err != nil {
			t.Fatal(err)
		}
		written := fs.ValidPath(name) && !strings.Contains(name, "/") && name != "." && name != "lock" &&
			os.WriteFile(filepath.Join(dir, name), lease, 0o600) == nil
		err := errors.Join(os.WriteFile(filepath.Join(h.dir, "0a000000-29"), history, 0o600), os.WriteFile(filepath.Join(h.config.DataDir, ".p.owners"), index, 0o600))
		if err != nil {
			t.Fatal(err)
		}
		_, made, err := h.Take(t.Context(), owner("a"), h.config.Families(), h.open)
		if err != nil && !errors.Is(err, ipam.ErrExhausted) {
			t.Errorf("the error is %v", err)
		}
		for _, address := range made {
			if !h.config.Usable(address) || written && address.String() == name {
				t.Errorf("a gets %s", address)
			}
		}
		requireCounts(t, h)
		h.release("a")
		if all, err := h.Of(t.Context(), owner("a")); err != nil || len(all) > 0 {
			t.Errorf("a has %v, %v", all, err)
		}
	})
}

// requireCounts requires that each address of the block is counted once, but for leases of
// addresses that it does not give out.
func requireCounts(t *testing.T, h *host) {
	t.Helper()
	counts, err := h.Count(t.Context(), h.blocks)
	if err != nil {
		t.Fatal(err)
	}
	others := 0
	leased, err := h.Leased(t.Context())
	for _, address := range leased {
		if h.blocks[0].Contains(address) && !h.config.Usable(address) {
			others++
		}
	}
	c := counts[0]
	if want := h.config.Capacity(h.blocks[0]) + others; err != nil || c.Used+c.Cooling+c.Free != want {
		t.Errorf("the counts are %+v, %v, want %d in all", c, err, want)
	}
}
