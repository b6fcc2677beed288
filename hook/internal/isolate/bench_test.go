// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/isolation"
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
