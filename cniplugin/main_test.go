// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"os"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

func TestMain(m *testing.M) {
	os.Exit(sandbox.MainIfRoot(m.Run))
}
