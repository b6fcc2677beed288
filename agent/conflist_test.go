// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
)

// TestConflistWritten: a conflist that is gone is not written, whatever was there before.
func TestConflistWritten(t *testing.T) {
	dir := t.TempDir()
	c := &Conflist{
		Path: filepath.Join(dir, "nets", "00-multi.conflist"), Source: filepath.Join(dir, "source"),
		Metrics: NewMetrics(prometheus.NewRegistry()), Logger: hclog.NewNullLogger(),
	}
	write(t, c.Source, `{"cniVersion": "1.0.0", "name": "multi", "plugins": [{"type": "p"}]}`)
	write(t, filepath.Join(dir, "nets", "10-web.conflist"), "")
	requireWritten := func(when string, want bool) {
		t.Helper()
		if got := c.Written(); got != want {
			t.Errorf("%s: written is %t", when, got)
		}
	}
	requireWritten("before", false)
	c.once()
	requireWritten("then", true)
	if err := os.Remove(c.Path); err != nil {
		t.Fatal(err)
	}
	requireWritten("after it was removed", false)
	c.once()
	requireWritten("written again", true)
}
