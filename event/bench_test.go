// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package event

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/hook"
)

// BenchmarkObserve is what an event costs its caller, rotations included.
func BenchmarkObserve(b *testing.B) {
	r := NewRecorder(b.TempDir(), "allocnet-cni", hclog.NewNullLogger())
	for i := range b.N {
		r.Observe(hook.Observation{
			Op: hook.OpAttach, Allocation: fmt.Sprintf("5c2e9a0e-1111-2222-3333-%012d", i), Network: "storage", Interface: "net0",
			Attempts: 1, Took: 50 * time.Millisecond, Err: errors.New("plugin type=\"bridge\" failed (add): no addresses"),
		})
	}
}

// BenchmarkRotate is the longest of them: both files are full.
func BenchmarkRotate(b *testing.B) {
	r := newRing(b.TempDir())
	for i := range 12_000 {
		if err := r.append(Event{Allocation: fmt.Sprintf("5c2e9a0e-1111-2222-3333-%012d", i), Caller: "allocnet-cni", Networks: []string{"storage"}}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if err := r.rotate(); err != nil {
			b.Fatal(err)
		}
		if err := r.append(Event{}); err != nil {
			b.Fatal(err)
		}
	}
}
