// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/hostmap"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/selection"
)

// BenchmarkMap reads the map of 1,000 allocations from their namespaces, and draws it.
func BenchmarkMap(b *testing.B) {
	const all = 1000
	conf := b.TempDir()
	sandbox.WriteFile(b, filepath.Join(conf, "10-net.conflist"), `{"cniVersion": "1.0.0", "name": "net", "plugins": [
		{"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.100.0.0/16", "routes": [{"dst": "0.0.0.0/0"}]}}]}`)
	engine, err := hook.NewEngine(hook.Config{ConfDirs: []string{conf}, PluginDirs: []string{sandbox.PluginDir()}, StateDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	each := func(do func(id string) error) {
		var group errgroup.Group
		group.SetLimit(8)
		for i := range all {
			group.Go(func() error { return do(fmt.Sprintf("map-%d", i)) })
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	ctx := context.Background()
	b.Cleanup(func() { each(func(id string) error { return engine.Teardown(ctx, id) }) })
	each(func(id string) error {
		_, err := engine.Setup(ctx, hook.Request{ID: id, Primary: &selection.Element{Name: "net", Interface: "eth0"}})
		return err
	})
	h := hostmap.Host{Name: "host", Engine: engine, Catalog: func() (*cniconf.Catalog, error) { return cniconf.Load(conf) }}
	for b.Loop() {
		m, err := hostmap.Read(ctx, h)
		if err != nil || len(m.Allocations) != all || m.Allocations[0].Drift != nil {
			b.Fatalf("%+v, %v", m, err)
		}
		b.ReportMetric(float64(len(hostmap.SVG(m))), "bytes")
	}
}
