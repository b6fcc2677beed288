// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/agent/config"
)

// TestReload: the log level changes, other changes are logged, and an invalid
// configuration changes nothing.
func TestReload(t *testing.T) {
	d := newTestDaemon(t, config.Config{})
	d.reconciler = d.newReconciler(nil)
	var out bytes.Buffer
	var err error
	if d.log, err = newLogger(config.Config{LogLevel: "info", LogFormat: "text"}, &out); err != nil {
		t.Fatal(err)
	}
	invalid := errors.New("a.hcl:1,1-2: Unsupported argument")
	d.load = func() (config.Config, error) { return config.Config{}, invalid }
	if err := d.reload(); !errors.Is(err, invalid) || !strings.Contains(out.String(), "the old one stays in use") || !d.log.IsInfo() {
		t.Errorf("an invalid configuration: %v\n%s", err, out.String())
	}
	next := d.config
	next.LogLevel, next.Pprof = "warn", true
	d.load = func() (config.Config, error) { return next, nil }
	if err := d.reload(); err != nil || !strings.Contains(out.String(), "settings=pprof") || d.log.IsInfo() {
		t.Errorf("a changed configuration: %v\n%s", err, out.String())
	}
}
