// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/exhaustive"
)

// TestMatrix: each configuration, with -short a share of them, leaves the same in process as with the plugins.
func TestMatrix(t *testing.T) {
	for _, c := range matrix() {
		exhaustive.Run(t, c.Name, func(t *testing.T) {
			t.Parallel()
			requireSame(t, c)
		})
	}
}

func requireSame(t *testing.T, c configuration) {
	t.Helper()
	a := compare(t, c)
	if strings.HasPrefix(a.Failure, notInProcess) { // both would be the plugins; TestSupported bounds how many
		t.Log(a.Failure)
		return
	}
	if a.Failure != "" {
		t.Fatalf("%s\n%s", a.Failure, c)
	}
	for _, d := range a.Differences {
		t.Error(d)
	}
	if t.Failed() {
		t.Log(c)
	}
}

// matrix returns the configurations that are compared. It is always the same.
func matrix() []configuration {
	var all []configuration
	for _, f := range families {
		all = append(all, f.configurations()...)
	}
	return all
}

// TestSupported: few configurations are left to plugins, such as those whose values are
// invalid.
func TestSupported(t *testing.T) {
	all := matrix()
	count := 0
	for _, c := range all {
		if err := supported(c); err != nil {
			t.Logf("%s: %v", c.Name, err)
		} else {
			count++
		}
	}
	t.Logf("%d of %d configurations are executed in process", count, len(all))
	if count < 600 || count < len(all)*9/10 {
		t.Errorf("only %d of %d configurations are executed in process", count, len(all))
	}
}
