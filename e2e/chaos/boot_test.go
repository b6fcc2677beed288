// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package chaos

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/state"
)

// TestLongNamespaceOfThisBoot: a record of an earlier boot does not say which
// namespace was its own, because its set-up was killed before, or because that
// line is damaged. Another program's namespace at its path is not touched.
func TestLongNamespaceOfThisBoot(t *testing.T) {
	for name, damaged := range map[string]bool{"killed": false, "damaged": true} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			store, err := state.Open(h.state)
			if err != nil {
				t.Fatal(err)
			}
			stand(h)
			r, err := store.Read("k1")
			if err != nil {
				t.Fatal(err)
			}
			h.must(detach...)
			r.Allocation.BootID, r.Allocation.NetnsID = "the boot before", ""
			lock, err := store.Lock(context.Background(), "k1")
			if err != nil {
				t.Fatal(err)
			}
			if !damaged {
				r.Attachments = nil
			}
			if err := lock.Begin(r.Allocation, r.Attachments); err != nil {
				t.Fatal(err)
			}
			lock.Unlock()
			sandbox.Run(t, "ip", "netns", "add", "k1") // by another program
			defer func() { _ = netns.Remove(netns.DefaultDir + "/k1") }()
			sandbox.Run(t, "ip", "-n", "k1", "link", "add", "eth0", "type", "veth", "peer", "name", "p0")
			if damaged {
				path := h.state + "/allocations/k1/journal"
				file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := file.WriteString("{}\n"); err != nil {
					t.Fatal(err)
				}
				_ = file.Close()
				if err := store.SetCleanedBoot("the boot before"); err != nil {
					t.Fatal(err)
				}
				h.must("attach", "new", "--primary", "storage")
				h.await("the retry is over", func() bool {
					ids, err := store.IDs()
					return err == nil && !slices.Contains(ids, "k1")
				})
				h.must("detach", "new")
			} else {
				h.must(detach...)
			}
			if out, err := exec.Command("ip", "-n", "k1", "link", "show", "eth0").CombinedOutput(); err != nil {
				t.Errorf("another program's namespace: %v\n%s", err, out)
			}
		})
	}
}
