// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package pools measures allocnet-ipam: as a program beside host-local, and its pools on three
// servers of a real Nomad beside designs that ask the servers for each address.
package pools

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

func TestMain(m *testing.M) {
	cluster.Main()
	os.Exit(sandbox.Main(func() int { return nomadagent.Run(m.Run) }, sandbox.InstallIPAM))
}

// times are how long calls took, in milliseconds.
type times []float64

func (t *times) add(begun time.Time) {
	*t = append(*t, float64(time.Since(begun))/float64(time.Millisecond))
}

// quantile is the value that a part of the calls did not exceed. The median is that of 0.5.
func (t times) quantile(part float64) float64 {
	sorted := slices.Sorted(slices.Values(t))
	return sorted[int(part*float64(len(sorted)-1))]
}

// report reports the median and the 99th percentile.
func (t times) report(b *testing.B, what string) {
	b.Helper()
	b.ReportMetric(t.quantile(0.5), what+"-ms")
	b.ReportMetric(t.quantile(0.99), what+"-p99-ms")
}

// done ends a benchmark whose calls were measured by themselves: one iteration is many of them.
func done(b *testing.B) {
	b.Helper()
	for b.Loop() { // it forgets what was reported before
	}
	b.ReportMetric(0, "ns/op")
}
