// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter_test

import (
	"os"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

func TestMain(m *testing.M) {
	if file := os.Getenv(orphanVariable); file != "" {
		runOrphan(file)
		return
	}
	os.Exit(sandbox.MainIfRoot(m.Run))
}
