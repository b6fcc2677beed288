// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package netnstest runs parts of tests in network namespaces that are new and empty.
package netnstest

import (
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
)

// Run runs a part of a test in an empty network namespace, which ends with it. The test needs root.
func Run(t *testing.T, do func() error) {
	t.Helper()
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close() //nolint:errcheck // it ends with that
	if err := ns.Do(do); err != nil {
		t.Fatal(err)
	}
}
