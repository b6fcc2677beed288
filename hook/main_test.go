// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"os"
	"testing"

	"github.com/allocnet/allocnet/internal/exhaustive"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/sandbox"
)

func TestMain(m *testing.M) {
	fakecni.Main()
	os.Exit(sandbox.MainIfRoot(func() int { return exhaustive.InMemory(m.Run) }))
}
