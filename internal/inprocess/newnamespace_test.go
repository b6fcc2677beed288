// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
)

// inNewNamespace runs a part of a test in an empty network namespace, which ends with it.
func inNewNamespace(t *testing.T, do func() error) {
	t.Helper()
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if err := ns.Do(do); err != nil {
		t.Fatal(err)
	}
}
