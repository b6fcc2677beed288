// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package storetest

import (
	"os"
	"strconv"
	"testing"

	"github.com/allocnet/allocnet/internal/exhaustive"
)

// Schedules returns the seed of a model test's first schedule, and how many there are: what
// ALLOCNET_MODEL_SEED and ALLOCNET_MODEL_SCHEDULES say, else 1 and the given number, a share of it
// with -short.
func Schedules(t *testing.T, otherwise uint64) (first, count uint64) {
	t.Helper()
	first, count = number(t, "ALLOCNET_MODEL_SEED", 1), number(t, "ALLOCNET_MODEL_SCHEDULES", exhaustive.Count(otherwise))
	t.Logf("%d schedules, seeds from %d", count, first)
	return first, count
}

func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
