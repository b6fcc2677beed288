// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"os"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

func TestMain(m *testing.M) {
	os.Exit(sandbox.MainIfRoot(m.Run))
}

// exists tells whether there is a file.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
