// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
	"github.com/allocnet/allocnet/state"
)

// BenchmarkLoad finds out whether 10,000 rules are in force, as a process does that attaches one, and as one that has attached others before. Without what
// is prepared it reads the file.
func BenchmarkLoad(b *testing.B) {
	h, file := newHostOnDisk(b)
	var text strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&text, "allow \"rule %d\" {\n  from {\n    job = \"job%d\"\n    namespace = \"prod\"\n  }\n  to { job = \"job%d\" }\n  ports = [\"80/tcp\"]\n}\n", i, i, i+1)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	w, _, err := h.load()
	if err == nil {
		w.Levels["n"] = networkLevel{Level: isolation.Strict, Antispoof: true}
		err = h.setInForce(w)
	}
	encoded, failed := w.encode()
	if err != nil || failed != nil {
		b.Fatal(err, failed)
	}
	isInForce := func(b *testing.B) {
		if now, inForce, err := h.load(); err != nil || !now.isSame(*inForce) {
			b.Fatal(now.text, err)
		}
	}
	b.Run("further", func(b *testing.B) {
		for b.Loop() {
			isInForce(b)
		}
	})
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			recent = lastPrepared{}
			isInForce(b)
		}
	})
	if err := h.store.Isolation().SetInForce(encoded, nil); err != nil {
		b.Fatal(err)
	}
	b.Run("not_prepared", func(b *testing.B) {
		for b.Loop() {
			isInForce(b)
		}
	})
}

// BenchmarkRefresh has a host with 1,000 attachments follow a change of one of 10,000 rules, and of all.
func BenchmarkRefresh(b *testing.B) {
	h, file := newHostOnDisk(b)
	env := &operation.Env{Config: *h.config, Store: h.store}
	env.Config.Filter = filter.Kernel{}
	const network = `{"cniVersion": "1.0.0", "name": "n", "allocnet": {"isolation": "network"}, "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.0.0.0/16"}}]}`
	if err := os.WriteFile(filepath.Join(env.Config.ConfDirs[0], "n.conflist"), []byte(network), 0o600); err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		id := fmt.Sprintf("other-%d", i)
		lock, err := h.store.Lock(b.Context(), id)
		if err == nil {
			err = lock.Begin(state.Allocation{ID: id, Mode: state.ModeSetup, Identity: state.Identity{Namespace: "prod", Job: fmt.Sprintf("job%d", i/2), Group: "g"}}, []state.Attachment{{
				Network: "n", Interface: "eth0", ContainerID: id, Phase: state.Attached, Batch: state.Batch{Kind: state.BatchSetup}, Isolation: &state.Isolation{
					Level: "network", End: fmt.Sprintf("veth%d", i), MAC: fmt.Sprintf("02:00:00:00:%02x:%02x", i/256, i%256), Antispoof: true,
					Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i / 256), byte(i % 256)})},
				},
			}})
			lock.Unlock()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	text := func(rules int, changed string) string {
		var text strings.Builder
		for i := range 10000 {
			port := "80"
			if i < rules {
				port = changed
			}
			fmt.Fprintf(&text, "allow \"rule %d\" {\n  from {\n    job = \"job%d\"\n    namespace = \"prod\"\n  }\n  to { job = \"job%d\" }\n  ports = [\"%s/tcp\"]\n}\n", i, i, i+1, port)
		}
		return text.String()
	}
	n, err := netns.New()
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	for name, rules := range map[string]int{"one": 1, "all": 10000} {
		texts := []string{text(rules, "81"), text(rules, "82")}
		b.Run(name, func(b *testing.B) {
			err := n.Do(func() (err error) {
				for i := 0; b.Loop(); i++ {
					b.StopTimer()
					err = errors.Join(err, os.WriteFile(file, []byte(texts[i%2]), 0o600))
					b.StartTimer()
					err = errors.Join(err, Refresh(b.Context(), env))
				}
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}
