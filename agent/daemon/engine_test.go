// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/hook"
)

// newTestDaemon returns a daemon as far as its parts need it.
func newTestDaemon(t *testing.T, c config.Config) *Daemon {
	t.Helper()
	c.StateDir, c.LogLevel = t.TempDir(), "info"
	log, err := newLogger(c, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return &Daemon{config: c, log: log, metrics: agent.NewMetrics(prometheus.NewRegistry())}
}

// TestEngine: without a hook in the configuration the engine attaches to CNI
// networks.
func TestEngine(t *testing.T) {
	for _, name := range []string{"", hook.CNI} {
		engine, err := newTestDaemon(t, config.Config{Hook: name}).newEngine()
		if _, ok := engine.(*hook.Engine); !ok || err != nil {
			t.Errorf("hook %q: %T, %v", name, engine, err)
		}
	}
	if engine, err := newTestDaemon(t, config.Config{Hook: "none"}).newEngine(); err == nil {
		t.Errorf("an unknown hook: %T", engine)
	}
}

// noCNI is a hook without the methods of an engine.
type noCNI struct{ hook.Hook }

// TestHostNetwork: with the hook "noop" the agent has no networks and no records, and
// does not change attachments.
func TestHostNetwork(t *testing.T) {
	engine := hostNetwork{noCNI{}}
	for a := range engine.List(t.Context()) {
		t.Errorf("listed %+v", a)
	}
	if err := engine.Ready(t.Context(), nil); !errors.Is(err, hook.ErrNoStatus) {
		t.Errorf("ready: %v", err)
	}
	if _, ok := any(engine).(agent.Attacher); ok {
		t.Error("it changes attachments")
	}
	d := newTestDaemon(t, config.Config{Hook: hook.NoOp, CNI: config.CNI{Plugin: "/opt/cni/bin/allocnet-cni"}})
	if d.cni() != nil {
		t.Error("it executes the CNI plugin")
	}
	d.reconciler = d.newReconciler(engine)
	if c := d.agentConfig(hostNetwork{}); !c.HostNetwork || c.Map != nil {
		t.Error("the agent needs CNI networks to be ready")
	}
	if left, _ := filepath.Glob(d.config.StateDir + "/*"); left != nil {
		t.Errorf("it has records: %v", left)
	}
}
