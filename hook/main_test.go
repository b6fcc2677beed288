// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"os"
	"testing"

	"github.com/allocnet/allocnet/internal/fakecni"
)

func TestMain(m *testing.M) {
	fakecni.Main()
	os.Exit(m.Run())
}
